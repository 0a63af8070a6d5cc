"""Carrying crontabs over into a jobs file, and telling what that changes.

The `NAME=value` lines of a crontab hold for the entries below them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import TypeAlias

import attrs

from cronhare.adapters.addresses import checked_address
from cronhare.adapters.toml_writing import write_comment, write_table
from cronhare.domain.cron import UnknownZone, find_zone
from cronhare.domain.events.targets import MOST_ADDRESSES, MOST_TARGETS
from cronhare.domain.progress import OnProgress, passing, unwatched
from cronhare.domain.schedules.schedule import SYSTEM_PREFIX
from cronhare.domain.schedules.task import USER_NAME
from cronhare.domain.schedules.work import ATTEMPT_VARIABLES, is_unseen, names_unseen
from cronhare.domain.texts.printable import shortened

from .job import Job, clean_name, make_unique, name_command
from .reader import (
    ROOT,
    Crontab,
    CrontabKind,
    Entry,
    Finding,
    Host,
    Imported,
    Line,
    Setting,
    Unreadable,
    Verdict,
    as_argv,
    parse_usable,
    read_crontab,
)

#: Whom the units run as, unless they were asked for another.
UNITS_USER = "cronhare"

_STDIN = "the text after '%' is piped into the command"
_BOTH_DAYS = (
    "it runs when either day field matches; Debian's cron wants both where one begins with '*'"
)
_UNITS = (
    "for jobs of another user, or with a home: `cronhare service install --like-cron`; without "
    "that option the units run as cronhare, become no other user and see no home"
)
_OVERLAP = (
    "a line that still runs when it is due again is skipped then (overlap), so that one that hangs "
    "does not take all places of CRON_CONCURRENCY, 8 in `up`; cron runs it beside the other"
)
_NO_MAIL = (
    "nobody is told when a line without MAILTO has failed; cron mails its user: name whom to tell "
    "(notify)"
)
_IGNORED_FILE = "cron passes over this file for its name: disabled, so that nothing new starts"
_KILLED = (
    "what the line leaves running is killed when the line itself ends; cron lets it go on: have it "
    "wait, or make a service of it"
)
#: It ends in `&`, or has a program that puts one into the background.
_IN_BACKGROUND = re.compile(
    r"(?<![&\\])&\s*(\#.*)?$|\b(nohup|setsid|daemonize|disown|start-stop-daemon)\b"
    r"|\b(screen|tmux)\b.*\s-\w*d"
)

#: So much of what stands above a line is kept.
LONGEST_DESCRIPTION = 1_000


def import_crontabs(
    crontabs: Iterable[Crontab], *, host: Host, on_progress: OnProgress = unwatched
) -> Imported:
    """Carry crontabs over into the text of a jobs file; *on_progress* hears of their lines.

    Nothing is raised for what the crontabs hold: it is in the findings.
    """
    carrier = _Carrier(host)
    files = tuple(crontabs)
    read = [read_crontab(crontab.text, crontab.kind) for crontab in files]
    lines = passing([*chain.from_iterable(read)], on_progress)
    for crontab, own in zip(files, read, strict=True):
        carrier.carry(crontab, islice(lines, len(own)))
    notes = list_notes(carrier.jobs, host, lacks_mailto=carrier.lacks_mailto)
    names = (f"  {file.name}" for file in files)
    head = ("Imported from:", *names, *(f"Note: {note}" for note in notes))
    comments = "".join(f"{write_comment(line)}\n" for line in head)
    pieces = (comments, *carrier.write_targets(), *map(str, carrier.jobs))
    return Imported(text="\n".join(pieces), findings=tuple(carrier.findings), notes=notes)


DEFAULT_SHELL = "/bin/sh"

_MAIL = frozenset({"MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})
#: TZ moves nothing in Debian's cron either (crontab(5)); the others speak to cronie and systemd.
_MOVES_NOTHING = frozenset({"TZ", "RANDOM_DELAY", "START_HOURS_RANGE", "PERSISTENT", "DELAY"})
_MAIL_IS = (
    "mail is sent through CRON_SMTP_URL when a run has failed, of failures in a row for the first "
    "alone, and when one succeeds again; what runs write is kept with them"
)


@attrs.frozen(kw_only=True)
class Surroundings:
    """What holds at a place in a crontab: *timezone* is None where the schedules name none.

    *mail* are the addresses of MAILTO, None where there is no such line.
    """

    timezone: str | None
    mail: tuple[str, ...] | None = None
    shell: str = DEFAULT_SHELL
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])


#: What holds after a setting, what has become of it, and why.
Judged: TypeAlias = tuple[Surroundings, Verdict, str | None]


def apply_setting(setting: Setting, before: Surroundings) -> Judged:
    name, value = setting.name, setting.value
    if name == "CRON_TZ":
        return _timezone(value, before)
    if name == "MAILTO":
        return _mail(value, before)
    if reason := _why_not(name):
        return before, Verdict.LEFT_OUT, reason
    now = attrs.evolve(before, env={**before.env, name: value})
    if name == "SHELL":
        now = attrs.evolve(now, shell=value or DEFAULT_SHELL)
    if name in _MOVES_NOTHING:
        reason = f"the commands see {name}, but it does not move the times they run at"
        return now, Verdict.CHANGED, reason
    return now, Verdict.CARRIED, None


def _why_not(name: str) -> str | None:
    if name in _MAIL:
        return "mail is written by cronhare: see CRON_SMTP_URL"
    if name == "LOGNAME":
        return "cron does not let a crontab set LOGNAME"
    if name in ATTEMPT_VARIABLES:
        return f"cronhare itself sets {name} for its tasks"
    return None


def _mail(value: str, before: Surroundings) -> Judged:
    addresses = tuple(dict.fromkeys(filter(None, re.split(r"[,\s]+", value))))
    try:
        to = tuple(map(checked_address, addresses))
    except ValueError as error:
        return attrs.evolve(before, mail=()), Verdict.LEFT_OUT, f"one of them {error}"
    if len(to) > MOST_ADDRESSES:
        reason = f"has more than {MOST_ADDRESSES} addresses"
        return attrs.evolve(before, mail=()), Verdict.LEFT_OUT, reason
    now = attrs.evolve(before, mail=to)
    return (now, Verdict.CHANGED, _MAIL_IS) if to else (now, Verdict.CARRIED, None)


def _timezone(value: str, before: Surroundings) -> Judged:
    try:
        find_zone(value)
    except UnknownZone as error:
        return before, Verdict.LEFT_OUT, str(error)
    reason = (
        f"the schedules below run in {value}; "
        "Debian's cron ignores CRON_TZ and ran them in the host's zone"
    )
    return attrs.evolve(before, timezone=value), Verdict.CHANGED, reason


@attrs.define
class _Carrier:
    """The one import under way: the names given so far, and what was found."""

    host: Host
    names: set[str] = attrs.field(factory=set[str])
    jobs: list[Job] = attrs.field(factory=list)
    findings: list[Finding] = attrs.field(factory=list)
    mailed: dict[tuple[str, ...], str] = attrs.field(factory=dict[tuple[str, ...], str])
    lacks_mailto: bool = False

    def write_targets(self) -> Iterator[str]:
        used = {job.notify for job in self.jobs}
        for to, name in self.mailed.items():
            if name in used:
                yield f"{write_table(('notify', name), {'email': to})}\n"

    def carry(self, crontab: Crontab, lines: Iterable[Line]) -> None:
        here = Surroundings(timezone=self.host.timezone)
        for line in lines:
            match line:
                case Setting():
                    here, verdict, reason = apply_setting(line, here)
                    self._tell(crontab, line, verdict, (reason,) if reason else ())
                case Unreadable():
                    self._tell(crontab, line, Verdict.LEFT_OUT, (line.reason,))
                case Entry():
                    self._carry_entry(crontab, line, here)

    def _carry_entry(self, crontab: Crontab, entry: Entry, here: Surroundings) -> None:
        if entry.when != "@reboot":
            try:
                parse_usable(entry.when)
            except ValueError as error:
                self._tell(crontab, entry, Verdict.LEFT_OUT, (str(error),))
                return
        user, home = self.host.other(entry.user or crontab.owner), here.env.get("HOME", "")
        dormant = tuple(why_dormant(crontab, user, self.host))
        changes = (*dormant, *list_changes(entry, user, self.host))
        job = Job(
            name=make_unique(_allowed(_name(crontab, entry)), self.names),
            command=as_argv(entry.command, entry.stdin, here.shell),
            env=here.env,
            cwd=home if home.startswith("/") else self.host.home_of(user),
            user=user if user is not None and re.fullmatch(USER_NAME, user) else None,
            timeout=self.host.timeout,
            when=None if entry.when == "@reboot" else entry.when,
            timezone=here.timezone,
            enabled=not dormant,
            description=shortened(" ".join(entry.comment), LONGEST_DESCRIPTION).strip() or None,
            remarks=(f"{crontab.name}, line {entry.line}", *changes),
            notify=self._target(here.mail or ()),
        )
        self.jobs.append(job)
        self.lacks_mailto |= here.mail is None
        verdict = Verdict.CHANGED if changes else Verdict.CARRIED
        self._tell(crontab, entry, verdict, changes, job=job.name)

    def _target(self, to: tuple[str, ...]) -> str | None:
        if to and to not in self.mailed and len(self.mailed) < MOST_TARGETS:
            self.mailed[to] = f"mailto-{len(self.mailed) + 1}"
        return self.mailed.get(to)

    def _tell(
        self,
        crontab: Crontab,
        line: Line,
        verdict: Verdict,
        reasons: tuple[str, ...],
        *,
        job: str | None = None,
    ) -> None:
        self.findings.append(
            Finding(
                file=crontab.name,
                line=line.line,
                text=line.text,
                verdict=verdict,
                reasons=reasons,
                job=job,
            )
        )


def _allowed(name: str) -> str:
    return clean_name(f"job-{name}") if name.startswith(SYSTEM_PREFIX) else name


def _name(crontab: Crontab, entry: Entry) -> str:
    program = clean_name(name_command(entry.command))
    file = clean_name(re.sub(r"\.(cron|crontab|txt)$", "", PurePosixPath(crontab.name).name))
    says_nothing = crontab.kind is CrontabKind.USER or file == "crontab"
    return program if says_nothing or program.startswith(file) else clean_name(f"{file}-{program}")


def why_dormant(crontab: Crontab, user: str | None, host: Host) -> Iterator[str]:
    """Tell why an entry is carried disabled: what cron would not do, an import must not begin.

    *user* is whom cron runs it as, if that is not the worker's user.
    """
    if crontab.ignored_by_cron:
        yield _IGNORED_FILE
    if user is not None and not re.fullmatch(USER_NAME, user):
        yield f"cron runs it as {user!r}, which is no name that a task may have: disabled"
    elif user is not None and host.run_as != ROOT:
        yield (
            f"cron runs it as {user}; the worker runs as {host.run_as}, and only root's may become "
            "another user: disabled"
        )


def list_changes(entry: Entry, user: str | None, host: Host) -> Iterator[str]:
    if user is not None and user == entry.user and host.homes and user not in host.homes:
        yield f"this host has no user {user}: does the line lack the user column?"
    if entry.stdin is not None:
        yield _STDIN
    if _reads_both_days_otherwise(entry.when):
        yield _BOTH_DAYS
    if _IN_BACKGROUND.search(entry.command):
        yield _KILLED
    yield from entry.oddities


def _reads_both_days_otherwise(when: str) -> bool:
    """Whether Debian's star rule, which looks at a field's first character, gives other days."""
    if when.startswith("@"):
        return False
    _, _, day_of_month, _, day_of_week = when.split()
    days = (day_of_month, day_of_week)
    return not {"*", "?"} & set(days) and any(day.startswith("*") for day in days)


def list_notes(jobs: list[Job], host: Host, *, lacks_mailto: bool) -> tuple[str, ...]:
    if not jobs:
        return ()
    at_boot = any(job.when is None for job in jobs)
    in_utc = any(job.when is not None and job.timezone is None for job in jobs)
    ours = f"jobs without a user run as the worker's, which is taken to be {host.run_as}"
    beyond_units = any(
        host.run_as != UNITS_USER
        or job.user is not None
        or is_unseen(job.cwd or "/")
        or any(map(names_unseen, job.command))
        for job in jobs
    )
    notes = {
        f"{ours} (otherwise: --run-as)": any(job.user is None for job in jobs),
        _UNITS: beyond_units,
        "runs that were missed are caught up by one; cron drops them": True,
        _OVERLAP: any(job.when is not None for job in jobs),
        _NO_MAIL: lacks_mailto,
        "@reboot jobs run once per boot of each host that has a worker with this file": at_boot,
        "commands read their parameters, {}, from standard input; cron leaves it empty": True,
        "the host's zone is unknown: schedules without a timezone run in UTC": in_utc,
        "commands start in the jobs file's folder; cron starts them in the user's home": any(
            job.cwd is None for job in jobs
        ),
        "where no PATH is set, the worker's holds; cron's own is /usr/bin:/bin": any(
            "PATH" not in job.env for job in jobs
        ),
        f"a run is ended after {host.timeout}; cron lets it go on": host.timeout is not None,
    }
    return tuple(note for note, holds in notes.items() if holds)
