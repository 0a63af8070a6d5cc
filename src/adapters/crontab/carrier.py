"""Carrying crontabs over into a jobs file, and telling what that changes."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import PurePosixPath

import attrs

from cronhare.adapters.toml_writing import write_comment, write_table
from cronhare.domain.progress import OnProgress, passing, unwatched
from cronhare.domain.schedules.jobs_file import LARGEST_FILE
from cronhare.domain.schedules.notify import MOST_TARGETS
from cronhare.domain.schedules.schedule import SYSTEM_PREFIX
from cronhare.domain.schedules.task import USER_NAME

from .description import describe
from .differences import list_changes, list_notes, why_dormant
from .job import Job
from .naming import clean_name, make_unique, name_command
from .percent import as_argv
from .reader import Entry, Line, Setting, Unreadable, read_crontab
from .report import Finding, Imported, Verdict
from .settings import Surroundings, apply_setting
from .source import Crontab, CrontabKind, Host, parse_usable

_FULL = f"the jobs file has {LARGEST_FILE // 2**20} MiB: import this into another one"


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
    notes = list_notes(carrier.jobs, host)
    names = (f"  {file.name}" for file in files)
    head = ("Imported from:", *names, *(f"Note: {note}" for note in notes))
    comments = "".join(f"{write_comment(line)}\n" for line in head)
    pieces = (comments, *carrier.write_targets(), *map(str, carrier.jobs))
    return Imported(text="\n".join(pieces), findings=tuple(carrier.findings), notes=notes)


@attrs.define
class _Carrier:
    """The one import under way: the names given so far, and what was found."""

    host: Host
    names: dict[str, int] = attrs.field(factory=dict[str, int])
    size: int = 0
    jobs: list[Job] = attrs.field(factory=list)
    findings: list[Finding] = attrs.field(factory=list)
    mailed: dict[tuple[str, ...], str] = attrs.field(factory=dict[tuple[str, ...], str])

    def write_targets(self) -> Iterator[str]:
        """Write whom MAILTO names, as far as a job does."""
        used = {job.notify for job in self.jobs}
        for to, name in self.mailed.items():
            if name in used:
                yield f"{write_table(('notify', name), {'email': to})}\n"

    def carry(self, crontab: Crontab, lines: Iterable[Line]) -> None:
        here = Surroundings(timezone=self.host.timezone)
        for line in lines:
            match line:
                case Setting():
                    judged = apply_setting(line, here)
                    here = judged.now
                    reasons = (judged.reason,) if judged.reason else ()
                    self._tell(crontab, line, judged.verdict, reasons)
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
        user = self.host.other(entry.user or crontab.owner)
        dormant = why_dormant(crontab, user, self.host)
        changes = (*dormant, *list_changes(entry))
        job = self._job(crontab, entry, here, user=user, dormant=bool(dormant), changes=changes)
        self.size += len(str(job).encode())
        if self.size > LARGEST_FILE:
            self._tell(crontab, entry, Verdict.LEFT_OUT, (_FULL,))
            return
        self.jobs.append(job)
        verdict = Verdict.CHANGED if changes else Verdict.CARRIED
        self._tell(crontab, entry, verdict, changes, job=job.name)

    def _job(
        self,
        crontab: Crontab,
        entry: Entry,
        here: Surroundings,
        *,
        user: str | None,
        dormant: bool,
        changes: tuple[str, ...],
    ) -> Job:
        return Job(
            name=make_unique(_allowed(_name(crontab, entry)), self.names),
            command=as_argv(entry.command, entry.stdin, here.shell),
            env=here.env,
            cwd=_absolute(here.env.get("HOME")) or self.host.home_of(user),
            user=user if user is not None and re.fullmatch(USER_NAME, user) else None,
            timeout=self.host.timeout,
            when=None if entry.when == "@reboot" else entry.when,
            timezone=here.timezone,
            enabled=not dormant,
            description=describe(entry.comment),
            remarks=(f"{crontab.name}, line {entry.line}", *changes),
            notify=self._target(here.mail),
        )

    def _target(self, to: tuple[str, ...]) -> str | None:
        """Name whoever is to be told; no file has more targets than it may."""
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
    """Leave the system's own names to it."""
    return clean_name(f"job-{name}") if name.startswith(SYSTEM_PREFIX) else name


def _name(crontab: Crontab, entry: Entry) -> str:
    program = clean_name(name_command(entry.command))
    if crontab.kind is CrontabKind.USER:
        return program
    file = clean_name(re.sub(r"\.(cron|crontab|txt)$", "", PurePosixPath(crontab.name).name))
    return program if program.startswith(file) else clean_name(f"{file}-{program}")


def _absolute(path: str | None) -> str | None:
    return path if path and path.startswith("/") else None
