"""Boundary: jobs files, crontabs and arguments, as texts that people write.

An innocent task and schedule stand beside what is wrong with a jobs file, an innocent line beside
what is wrong with a crontab.
"""

import json
import random
import tomllib
from collections.abc import Callable, Iterator
from functools import partial

from cronhare.domain.schedules.catalog import LARGEST_FILE
from tests.fuzz.commands import Commands, answer, commands, handled, refused
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled

TASK = '[tasks.report]\nid = 1\ncommand = ["true"]\n'
SCHEDULE = '[schedules.nightly]\ntask = "report"\nschedule = "30 2 * * *"\n'
ESCAPES = "\x1b[2J\x9b31m\u202e\u200b"


def _schedule(line: str) -> str:
    return f"{TASK}{SCHEDULE}{line}\n"


def _task(line: str) -> str:
    return f"{TASK}{line}\n{SCHEDULE}"


#: What the keys of alerts stand beside.
ALERTED = '[notify.ops]\ncommand = ["true"]\nevents = ["alert"]\n'


def toml(text: str) -> str:
    """Write a text as TOML does."""
    return json.dumps(text)


#: Jobs files that have to be refused, and what the refusal names.
JOBS: dict[str, tuple[str | bytes, str]] = {
    "a service of a million letters": (
        f"[notify.a]\napprise = {toml('json://' + 'x' * 10**6)}\n",
        "notify.a: apprise: is longer than 2,048 characters",
    ),
    "a service with an escape": (
        f"[notify.a]\napprise = {toml('json://a' + ESCAPES)}\n",
        "notify.a: apprise: has a character that is none to be seen",
    ),
    "a file of services that never ends": (
        '[notify.a]\napprise_file = "/dev/zero"\n',
        "notify.a: apprise_file: is longer than 2,048 characters",
    ),
    "an alert that is none": (
        '[notify.a]\ncommand = ["true"]\nevents = ["alert"]\nalerts = ["\\u001b[2J"]\n',
        "notify.a: alerts",
    ),
    "a usual that is no number": (
        f"{ALERTED}[defaults]\nlonger_than_usual = nan\n",
        "defaults: longer_than_usual",
    ),
    "an output of more than there is": (
        f"{ALERTED}[defaults]\nleast_output = {toml('9' * 5_000)}\n",
        "defaults: least_output",
    ),
    "an integer of 5,000 digits": (_task(f"timeout = {'9' * 5_000}"), "2^63"),
    "an integer of 400 digits": (_schedule(f"misfire = {{ cap = 1{'0' * 400} }}"), "misfire.cap"),
    "5,000 digits of hex as source": (f"source = 0x{'f' * 5_000}\n{_task('')}", "source"),
    "5,000 digits of hex in params": (_schedule(f"params = {{ a = 0x{'f' * 5_000} }}"), "params.a"),
    "a multiplier of 10^400": (
        _schedule(f"retry = {{ backoff = {{ multiplier = 1{'0' * 400} }} }}"),
        "multiplier",
    ),
    "a multiplier of 1e400": (
        _schedule("retry = { backoff = { multiplier = 1e400 } }"),
        "multiplier",
    ),
    "keys 3,000 deep": (_schedule(f"params.{'.'.join('a' * 3_000)} = 1"), "64"),
    "lists 3,000 deep": (_schedule(f"params = {'[' * 3_000}{']' * 3_000}"), "64"),
    "tables 3,000 deep": (_schedule(f"params = {'{a=' * 3_000}1{'}' * 3_000}"), "64"),
    "tables 3,000 deep at the top": (f"[{'.'.join('a' * 3_000)}]\n", "64"),
    "a table in 50,000 tables": (f"{TASK}[{'a.' * 50_000}b]\n", "64"),
    "4,000 tables, each in 63 others": (
        TASK + "".join(f"[t{n}{'.a' * 63}]\n" for n in range(4_000)),
        "t92: is not known here",
    ),
    "200,000 numbers": (_schedule(f"params.a = [{'1,' * 200_000}]"), "params"),
    "a number of 8,000,000 digits": (_task(f"timeout = 0x{'f' * 8_000_000}"), "timeout"),
    "params of 200 KB": (_schedule(f'params = {{ a = "{"x" * 200_000}" }}'), "params"),
    "a schedule of 100,000 letters": (
        f'{TASK}[schedules.a]\ntask = "report"\nschedule = "{"x" * 100_000}"\n',
        "schedule",
    ),
    "a moment in the year 1": (_schedule("starts_at = 0001-01-01T00:00:00+14:00"), "calendar"),
    "a moment in the year 9999": (_schedule("ends_at = 9999-12-31T23:59:59-14:00"), "calendar"),
    "a zone outside its folder": (_schedule('timezone = "../../etc/passwd"'), "unknown zone"),
    "a zone with an escape": (_schedule('timezone = "\\u001b[2J"'), "unknown zone"),
    "a timeout of 100,000 parts": (_task(f'timeout = "{"9d" * 100_000}"'), "timeout"),
    "a name with an escape": ('[tasks."\\u001b[2J"]\nid = 1\ncommand = ["true"]\n', "name"),
    "a name that turns around": ('[tasks."a\\u202eb"]\nid = 1\ncommand = ["true"]\n', "name"),
    "errors 3,000 of a class": (
        _task(f"errors = {{ transient = {['E'] * 3_000} }}".replace("'", '"')),
        "errors",
    ),
    "a strategy that is code": (_task('strategy = "os:system(1)"'), "strategy"),
    "a lone surrogate": (_schedule('description = "\\ud800"'), "TOML"),
    "bytes that are no text": (TASK.encode() + b'[tasks.a]\nid = 2\ncommand = ["\xff"]\n', "UTF-8"),
    "a NUL": (TASK.encode() + b"\0", "TOML"),
    "UTF-16": (TASK.encode("utf-16"), "UTF-8"),
    "an escape sequence": (f"{TASK}{ESCAPES}", "TOML"),
    "a carriage return": (f"{TASK}a = 1\rb = 2", "TOML"),
    "more than is read": (b"#" * (LARGEST_FILE + 1), "MiB"),
    "3,000 schedules of tasks that are not there": (
        "".join(
            f'[tasks.task-{n}]\nid = {n + 1}\ncommand = ["true"]\n'
            f'[schedules.schedule-{n}]\ntask = "tusk-{n}"\non_start = true\n'
            for n in range(3_000)
        ),
        "no task",
    ),
}
#: Jobs files that are in order.
JOBS_TAKEN: dict[str, str | bytes] = {
    "nothing at all": "",
    "params with all that JSON can": _schedule(
        'params = { a = [1, 2.5, true, "x\\u0000y"], b = { c = {} } }'
    ),
    "1,000 classes": "".join(f"[classes.c{n}]\nretry = {{ attempts = 2 }}\n" for n in range(1_000))
    + _schedule('retry = "c7"'),
    "params 60 deep": _schedule(f"params = {'[' * 60}{']' * 60}"),
    "1,000 schedules": TASK
    + "".join(
        f'[schedules.s{n}]\ntask = "report"\nschedule = "{n % 60} * * * *"\n' for n in range(1_000)
    ),
}

LINE = "7 7 * * * /usr/bin/innocent\n"
#: Lines of a crontab, and what they become: what is left out names it, None is carried over.
CRONTABS: dict[str, tuple[str | bytes, str | None]] = {
    "bytes that are no text": (b"0 5 * * * echo \xff\n", "not UTF-8"),
    "a NUL": ("0 5 * * * echo \0\n", "NUL"),
    "an escape sequence": (f"{ESCAPES} * * * * true\n", "ASCII"),
    "an escape sequence in a command": (f"0 5 * * * echo {ESCAPES}\n", None),
    "nice 1,200 times": (f"0 5 * * * {'nice ' * 1_200}true\n", None),
    "100,000 dollars": (f"0 5 * * * {'$(' * 100_000}true\n", None),
    "100,000 quotes": (f"0 5 * * * {chr(34) * 100_000}true\n", None),
    "100,000 signs of per cent": (f"0 5 * * * cat{'%' * 100_000}\n", None),
    "a line of 1 MB of words": (f"0 5 * * * echo {'x ' * 500_000}\n", "characters"),
    "a time of 1 MB": (f"{'1,' * 500_000}1 5 * * * true\n", "characters"),
    "4,000 equal lines": ("0 5 * * * job\n" * 4_000, None),
    "10,000 settings": ("".join(f"V{n}=x\n" for n in range(10_000)), None),
    "10,000 comments that were lines": ("# 0 5 * * * true\n" * 10_000, None),
    "a zone that is none": ("CRON_TZ=Europe/Atlantis\n0 5 * * * true\n", "unknown zone"),
    "line ends that only Python knows": ("0 5 * * * a\x0b\x0c\x1c\x85\u2028 b\n", None),
}

#: Arguments that have to be refused, and what the refusal names.
ARGUMENTS: dict[str, tuple[tuple[str, ...], str]] = {
    "an escape as a name": (("run", ESCAPES), "x1b"),
    "markup as a name": (("run", "[/red]"), "[/red]"),
    "a name of 100,000 letters": (("run", "x" * 100_000), "no schedule"),
    "a command of bytes": (("\udcff\udcfe",), "udcfe"),
    "params of 5,000 brackets": (("run", "innocent", "--params", "[" * 5_000), "--params"),
    "params with half a surrogate": (("run", "innocent", "--params", r'"\ud800"'), "--params"),
    "params of 5,000 digits": (("run", "innocent", "--params", "9" * 5_000), "--params"),
    "explain in the year 9999": (
        ("explain", "innocent", "--at", "9999-12-31T23:59:59-14:00"),
        "edge",
    ),
    "next from the year 1": (("next", "* * * * *", "--from", "0001-01-01"), "edge"),
    "an execution of 5,000 digits": (("executions", "show", "9" * 5_000), "execution_id"),
    "an execution of 2^63": (("executions", "show", str(2**63)), "execution_id"),
    "to replay for ever": (("failed", "replay", "--all", "--rate", "1e-300"), "--rate"),
    "a file with an escape": (("check", "\x1b[2J.toml"), "x1b"),
    "a file without an end": (("check", "/dev/zero"), "larger"),
    "a crontab without an end": (("import", "crontab", "/dev/zero"), "larger"),
}


def _check(here: Commands, content: str | bytes, naming: str) -> Answer:
    """Check and apply a file: neither takes it, and nothing of it gets into the ledger."""
    here.write(content)
    for command in ("check", "apply"):
        refused(here(command, "jobs.toml"), naming=naming)
    return Answer.REFUSED


def _take(here: Commands, content: str | bytes) -> Answer:
    here.write(content)
    return handled(here("check", "jobs.toml"))


def _import(here: Commands, content: str | bytes, naming: str | None) -> Answer:
    """Import a crontab: the innocent line is carried over into a file that can be used."""
    given = content if isinstance(content, bytes) else content.encode(errors="surrogateescape")
    here.write(given + b"\n" + LINE.encode(), "crontab")
    (here.folder / "imported.toml").unlink(missing_ok=True)
    said = here("import", "crontab", "crontab", "-o", "imported.toml")
    handled(said)
    handled(here("check", "imported.toml"))
    jobs = tomllib.loads((here.folder / "imported.toml").read_text(encoding="utf-8"))
    if not any("innocent" in name for name in jobs["tasks"]):
        raise Mishandled("the innocent line is not carried over")
    if naming is None:
        return Answer.HANDLED
    if "left out" not in said.err or naming not in said.err:
        raise Mishandled(f"{naming} is not named: {said.err[-1_000:]}")
    return Answer.REFUSED


def _argue(here: Commands, arguments: tuple[str, ...], naming: str) -> Answer:
    here.write(LINE, "innocent")
    return refused(here(*arguments), naming=naming)


def _noise(rng: random.Random) -> str:
    letters = "[]{}=\"'\\#.,\n\r\t 0123456789abtrue\x1b\x00\u202eé*%@/-:"
    return "".join(rng.choices(letters, k=rng.randint(1, 200)))


def _by_chance(rng: random.Random) -> Entry[Commands]:
    """Make a text of one kind or another: whatever it is, it is taken or refused, no third."""
    noise = _noise(rng)

    def jobs(here: Commands) -> Answer:
        here.write(_schedule(noise))
        return answer(here("check", "jobs.toml"))

    def crontab(here: Commands) -> Answer:
        return _import(here, noise, None)

    def argument(here: Commands) -> Answer:
        said = noise.replace("\0", "")
        return answer(here("explain", "--at", "08:00", "--", said))

    kind: Callable[[Commands], Answer] = rng.choice((jobs, crontab, argument))
    return Entry(f"by chance {kind.__name__} {noise!r}", kind)


#: What the short form tries, of each table: a few, the worst.
SHORT = frozenset(
    {
        *("a jobs file with an integer of 5,000 digits", "a jobs file with keys 3,000 deep"),
        *("a jobs file with a multiplier of 10^400", "a crontab with nice 1,200 times"),
        *("a crontab with 4,000 equal lines", "a crontab with an escape sequence"),
        *("a command of bytes", "params of 5,000 brackets", "explain in the year 9999"),
        "markup as a name",
    }
)


def _entries() -> Iterator[tuple[str, Callable[[Commands], Answer]]]:
    for name, (content, naming) in JOBS.items():
        yield f"a jobs file with {name}", partial(_check, content=content, naming=naming)
    for name, content in JOBS_TAKEN.items():
        yield f"a jobs file in order: {name}", partial(_take, content=content)
    for name, (lines, named) in CRONTABS.items():
        yield f"a crontab with {name}", partial(_import, content=lines, naming=named)
    for name, (arguments, naming) in ARGUMENTS.items():
        yield name, partial(_argue, arguments=arguments, naming=naming)


BOUNDARY = Boundary(
    name="texts",
    at=commands,
    entries=[Entry(name, attempt, short=name in SHORT) for name, attempt in _entries()],
    by_chance=_by_chance,
)
assert not SHORT - {entry.name for entry in BOUNDARY.entries}, "each of them is an entry"
