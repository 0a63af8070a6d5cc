"""Boundary: jobs files, crontabs, arguments and the environment, as texts that people write.

An innocent task and schedule stand beside what is wrong with a jobs file, an innocent line beside
what is wrong with a crontab.
"""

import json
import random
import tomllib
from collections.abc import Callable, Iterator
from functools import partial

from cronhare.domain.schedules.jobs_file import LARGEST_FILE
from tests.fuzz.commands import Commands, answer, commands, handled, refused
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled

TASK = '[tasks.report]\nid = 1\ncommand = ["true"]\n'
SCHEDULE = '[schedules.nightly]\ntask = "report"\nschedule = "30 2 * * *"\n'
MOMENT = f'{TASK}[schedules.a]\ntask = "report"\ntimezone = "Europe/Berlin"\n'
ESCAPES = "\x1b[2J\x9b31m\u202e\u200b"


def _schedule(line: str) -> str:
    return f"{TASK}{SCHEDULE}{line}\n"


def _task(line: str) -> str:
    return f"{TASK}{line}\n{SCHEDULE}"


#: Jobs files that have to be refused, and what the refusal names.
#: What the new keys of a file stand beside.
ALERTED = '[notify.ops]\ncommand = ["true"]\nevents = ["alert"]\n'


def toml(text: str) -> str:
    """Write a text as TOML does."""
    return json.dumps(text)


JOBS: dict[str, tuple[str | bytes, str]] = {
    "services that are secrets": (
        f"[notify.a]\napprise = [{toml('slack://c4nary')}, {toml('dbus://c4nary')}]\n",
        "notify.a: apprise: address 2 begins with dbus://",
    ),
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
        "notify.a: apprise_file: cannot be read",
    ),
    "a digest of nothing": (
        '[notify.a]\ncommand = ["true"]\ndigest = -9223372036854775808\n',
        "notify.a: digest: ",
    ),
    "an alert that is none": (
        '[notify.a]\ncommand = ["true"]\nevents = ["alert"]\nalerts = ["\\u001b[2J"]\n',
        "notify.a: alerts",
    ),
    "deadlines that are none": (
        f'{ALERTED}[defaults]\nnot_started_by = "25:00"\nnot_finished_by = {{ a = 1 }}\n',
        "defaults: not_started_by",
    ),
    "a usual that is no number": (
        f"{ALERTED}[defaults]\nlonger_than_usual = nan\n",
        "defaults: longer_than_usual",
    ),
    "an output of more than there is": (
        f"{ALERTED}[defaults]\nleast_output = {toml('9' * 5_000)}\n",
        "defaults: least_output",
    ),
    "a ping inside": (
        _schedule("ping = 'http://0x7f.1/c4nary'"),
        "ping: has a number for a host",
    ),
    "an integer of 5,000 digits": (_task(f"timeout = {'9' * 5_000}"), "2^63"),
    "an integer of 400 digits": (_schedule(f"misfire = {{ cap = 1{'0' * 400} }}"), "misfire.cap"),
    "5,000 digits of hex as source": (f"source = 0x{'f' * 5_000}\n{_task('')}", "source"),
    "5,000 digits of hex in params": (_schedule(f"params = {{ a = 0x{'f' * 5_000} }}"), "params.a"),
    "an id of 2^63": (TASK.replace("id = 1", f"id = {2**63}") + SCHEDULE, "tasks.report: id"),
    "an id of 2^31": (TASK.replace("id = 1", f"id = {2**31}") + SCHEDULE, "2,147,483,647"),
    "a negative id": (TASK.replace("id = 1", "id = -1") + SCHEDULE, "id"),
    "an id that is true": (TASK.replace("id = 1", "id = true") + SCHEDULE, "id"),
    "an id with a fraction": (TASK.replace("id = 1", "id = 1.5") + SCHEDULE, "id"),
    "a multiplier of 10^400": (
        _schedule(f"retry = {{ backoff = {{ multiplier = 1{'0' * 400} }} }}"),
        "multiplier",
    ),
    "a multiplier of 1e400": (
        _schedule("retry = { backoff = { multiplier = 1e400 } }"),
        "multiplier",
    ),
    "a multiplier that is no number": (
        _schedule("retry = { backoff = { multiplier = nan } }"),
        "multiplier",
    ),
    "a delay below nothing": (_schedule("retry = { backoff = { delay = -1 } }"), "delay"),
    "no attempts": (_schedule("retry = { attempts = 0 }"), "attempts"),
    "a retry that is a list": (_schedule("retry = [1, 2]"), "retry"),
    "keys 3,000 deep": (_schedule(f"params.{'.'.join('a' * 3_000)} = 1"), "64"),
    "lists 3,000 deep": (_schedule(f"params = {'[' * 3_000}{']' * 3_000}"), "64"),
    "lists 200 deep": (_schedule(f"params = {'[' * 200}{']' * 200}"), "64"),
    "tables 3,000 deep": (_schedule(f"params = {'{a=' * 3_000}1{'}' * 3_000}"), "64"),
    "tables 3,000 deep at the top": (f"[{'.'.join('a' * 3_000)}]\n", "64"),
    "a key of 50,000 parts": (_schedule(f"params.{'a.' * 50_000}b = 1"), "64"),
    "a key of 50,000 parts in quotes": (_schedule("params." + '"a" . ' * 50_000 + "b = 1"), "64"),
    "a table in 50,000 tables": (f"{TASK}[{'a.' * 50_000}b]\n", "64"),
    "a list of tables in 50,000": (f"{TASK}[[{'a.' * 50_000}b]]\n", "64"),
    "a key of 50,000 parts after a text that seems open": (
        _schedule("description = '\"'\nparams." + "a." * 50_000 + "b = 1"),
        "64",
    ),
    "4,000 tables, each in 63 others": (
        TASK + "".join(f"[t{n}{'.a' * 63}]\n" for n in range(4_000)),
        "250,000",
    ),
    "2,000,000 numbers": (_schedule(f"params.a = [{'1,' * 2_000_000}]"), "250,000"),
    "a number of 8,000,000 digits": (_task(f"timeout = 0x{'f' * 8_000_000}"), "65,536"),
    "params that are no number": (_schedule("params = { a = nan }"), "params.a"),
    "params without end": (_schedule("params = { a = -inf }"), "params.a"),
    "params with a date": (_schedule("params = { a = 2026-01-01 }"), "params.a"),
    "params of 200 KB": (_schedule(f'params = {{ a = "{"x" * 200_000}" }}'), "params"),
    "a schedule that is a number": (
        f'{TASK}[schedules.a]\ntask = "report"\nschedule = 5\n',
        "text",
    ),
    "a schedule of 100,000 letters": (
        f'{TASK}[schedules.a]\ntask = "report"\nschedule = "{"x" * 100_000}"\n',
        "schedule",
    ),
    "a moment in the year 1": (_schedule("starts_at = 0001-01-01T00:00:00+14:00"), "calendar"),
    "a moment in the year 9999": (_schedule("ends_at = 9999-12-31T23:59:59-14:00"), "calendar"),
    "an end before its start": (
        _schedule("starts_at = 2026-02-01T00:00:00Z\nends_at = 2026-01-01T00:00:00Z"),
        "ends_at",
    ),
    "a date that is none": (_schedule("starts_at = 2026-02-30T00:00:00Z"), "TOML"),
    "a fold of two": (_schedule("fold = 2"), "fold"),
    "a wall time that is leapt over": (
        f"{MOMENT}date_time = 2026-03-29T02:30:00\n",
        "does not exist",
    ),
    "no such zone": (_schedule('timezone = "Europe/Atlantis"'), "unknown zone"),
    "a zone outside its folder": (_schedule('timezone = "../../etc/passwd"'), "unknown zone"),
    "a zone with an escape": (_schedule('timezone = "\\u001b[2J"'), "unknown zone"),
    "a timeout without a unit": (_task('timeout = "5"'), "timeout"),
    "a timeout of nothing": (_task('timeout = "0s"'), "timeout"),
    "a timeout of ages": (_task('timeout = "999999999d"'), "timeout"),
    "a timeout of 100,000 parts": (_task(f'timeout = "{"9d" * 100_000}"'), "timeout"),
    "a jitter below nothing": (_schedule('jitter = "-5s"'), "jitter"),
    "a queue of the system's": (_schedule('queue = "cron_scheduler_failed"'), "queue"),
    "a queue with a space": (_schedule('queue = "a b"'), "queue"),
    "a queue of 300 letters": (_schedule(f'queue = "{"q" * 300}"'), "queue"),
    "a misfire that is a list": (_schedule("misfire = []"), "misfire"),
    "a misfire of another name": (_schedule('misfire = "never"'), "misfire"),
    "a cap of 10^9": (_schedule('misfire = { policy = "all", cap = 1000000000 }'), "cap"),
    "an overlap of another name": (_schedule('overlap = "forbid"'), "overlap"),
    "a task that is not there": (f'{TASK}[schedules.a]\ntask = "x"\non_start = true\n', "no task"),
    "a schedule without a task": ("[schedules.a]\non_start = true\n", "task: is missing"),
    "a schedule without a time": (f'{TASK}[schedules.a]\ntask = "report"\n', "schedule"),
    "cron text and a moment": (_schedule("date_time = 2026-03-29T02:30:00Z"), "date_time"),
    "an unknown field": (_schedule("scheduel = 1"), "did you mean schedule"),
    "an unknown table": (f"{TASK}[scheduels.a]\n", "did you mean schedules"),
    "a name with a capital": ('[tasks.Report]\nid = 1\ncommand = ["true"]\n', "name"),
    "a name of 64 letters": (f'[tasks.{"x" * 64}]\nid = 1\ncommand = ["true"]\n', "name"),
    "a name with an escape": ('[tasks."\\u001b[2J"]\nid = 1\ncommand = ["true"]\n', "name"),
    "a name that turns around": ('[tasks."a\\u202eb"]\nid = 1\ncommand = ["true"]\n', "name"),
    "no name": ('[tasks.""]\nid = 1\ncommand = ["true"]\n', "name"),
    "a name of the system's": (f'{TASK}[schedules.cronhare-x]\ntask = "report"\n', "cronhare-"),
    "a command that is text": ('[tasks.a]\nid = 1\ncommand = "true"\n', "a list of texts"),
    "an empty command": ("[tasks.a]\nid = 1\ncommand = []\n", "command"),
    "a command without a program": ('[tasks.a]\nid = 1\ncommand = [""]\n', "command"),
    "a command with a NUL": ('[tasks.a]\nid = 1\ncommand = ["a\\u0000b"]\n', "NUL"),
    "a folder with a NUL": (_task('cwd = "a\\u0000b"'), "NUL"),
    "a variable with a sign": (_task('env = { "A=B" = "c" }'), "env"),
    "a variable without a name": (_task('env = { "" = "c" }'), "env"),
    "a type of another name": (_task('type = "robot"'), "type"),
    "classes that are a list": (f"classes = [1]\n{TASK}", "classes"),
    "a class that is a text": (f'[classes]\na = "b"\n{TASK}', "classes.a"),
    "a class of 64 letters": (f"[classes.{'x' * 64}]\n{TASK}", "name"),
    "a task of no class": (_task('class = "none"'), "there is no class"),
    "defaults of another name": (f"[defaults]\ncommand = ['x']\n{TASK}", "defaults: command"),
    "errors 3,000 of a class": (
        _task(f"errors = {{ transient = {['E'] * 3_000} }}".replace("'", '"')),
        "errors",
    ),
    "an error with an escape": (_task('errors = { transient = ["\\u001b[2J"] }'), "errors"),
    "an exit status of 5,000 digits": (
        _task(f'errors = {{ transient = ["exit:{"9" * 50}"] }}'),
        "exit status",
    ),
    "a strategy that is code": (_task('strategy = "os:system(1)"'), "strategy"),
    "a strategy of 10,000 letters": (_task(f'strategy = "{"a" * 10_000}:b"'), "strategy"),
    "a strategy of a number": (_task("strategy = 5"), "strategy"),
    "kept by 2^63-1": (f"[classes.a]\nkeep = {{ done = {2**63 - 1} }}\n{TASK}", "keep"),
    "tasks that are a number": ("tasks = 5\n", "tasks"),
    "a task that is a list": ("[tasks]\na = [1]\n", "tasks.a"),
    "the same task twice": (TASK + TASK, "TOML"),
    "the same id twice": (TASK + TASK.replace("report", "other"), "already"),
    "a source with a slash": (f'source = "../x"\n{TASK}', "source"),
    "a lone surrogate": (_schedule('description = "\\ud800"'), "TOML"),
    "bytes that are no text": (TASK.encode() + b'[tasks.a]\nid = 2\ncommand = ["\xff"]\n', "UTF-8"),
    "a NUL": (TASK.encode() + b"\0", "TOML"),
    "UTF-16": (TASK.encode("utf-16"), "UTF-8"),
    "half a table": ("[tasks.report", "TOML"),
    "a text without its end": ('[tasks.a]\ncommand = ["', "TOML"),
    "JSON": ('{"tasks": {}}', "TOML"),
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
    "a mark of its order": b"\xef\xbb\xbf" + TASK.encode(),
    "line ends of Windows": _schedule("").replace("\n", "\r\n"),
    "a description with a line end": _schedule('description = "two\\nlines"'),
    "a description that turns around": _schedule('description = "a\\u202eb"'),
    "params with all that JSON can": _schedule(
        'params = { a = [1, 2.5, true, "x\\u0000y"], b = { c = {} } }'
    ),
    "1,000 classes": "".join(f"[classes.c{n}]\nretry = {{ attempts = 2 }}\n" for n in range(1_000))
    + _schedule('retry = "c7"'),
    "the largest integer": _schedule(f"params = {{ a = {2**63 - 1} }}"),
    "params 60 deep": _schedule(f"params = {'[' * 60}{']' * 60}"),
    "1,000 schedules": TASK
    + "".join(
        f'[schedules.s{n}]\ntask = "report"\nschedule = "{n % 60} * * * *"\n' for n in range(1_000)
    ),
}

LINE = "7 7 * * * /usr/bin/innocent\n"
#: Lines of a crontab, and what they become: what is left out names it, None is carried over.
CRONTABS: dict[str, tuple[str | bytes, str | None]] = {
    "nothing": ("", None),
    "no time": ("hello\n", "the line ends before that"),
    "no command": ("* * * * *\n", "the line ends before that"),
    "a minute too high": ("61 * * * * true\n", "61"),
    "a day that never comes": ("0 0 31 2 * true\n", "never fires"),
    "an unknown word": ("@sometimes true\n", "@sometimes"),
    "a word of 10,000 letters": (f"@{'x' * 10_000} true\n", "@"),
    "bytes that are no text": (b"0 5 * * * echo \xff\n", "not UTF-8"),
    "a NUL": ("0 5 * * * echo \0\n", "NUL"),
    "an escape sequence": (f"{ESCAPES} * * * * true\n", "ASCII"),
    "an escape sequence in a command": (f"0 5 * * * echo {ESCAPES}\n", None),
    "an escape sequence in a comment": (f"# {ESCAPES}\n0 5 * * * true\n", None),
    "a flag of other daemons": ("0 5 * * * -n true\n", "flag"),
    "a sixth field": ("0 5 * * * * true\n", "sixth"),
    "per cent": ("0 5 * * * cat%one%two\n", None),
    "an unclosed quote": ("0 5 * * * echo 'a\n", None),
    "nice 1,200 times": (f"0 5 * * * {'nice ' * 1_200}true\n", None),
    "sudo 100,000 times": (f"0 5 * * * {'sudo ' * 100_000}true\n", None),
    "100,000 brackets": (f"0 5 * * * {'(' * 100_000}true\n", None),
    "100,000 dollars": (f"0 5 * * * {'$(' * 100_000}true\n", None),
    "100,000 quotes": (f"0 5 * * * {chr(34) * 100_000}true\n", None),
    "100,000 backticks": (f"0 5 * * * {'`' * 100_000}true\n", None),
    "100,000 backslashes": (f"0 5 * * * {chr(92) * 100_000}true\n", None),
    "100,000 signs of per cent": (f"0 5 * * * cat{'%' * 100_000}\n", None),
    "100,000 semicolons": (f"0 5 * * * {';' * 100_000}true\n", None),
    "100,000 blanks": (f"0{' ' * 100_000}5 * * * true\n", None),
    "a line of 1 MB": (f"0 5 * * * echo {'x' * 1_000_000}\n", "characters"),
    "a line of 1 MB of words": (f"0 5 * * * echo {'x ' * 500_000}\n", "characters"),
    "a time of 1 MB": (f"{'1,' * 500_000}1 5 * * * true\n", "characters"),
    "10,000 lines": ("".join(f"0 5 * * * job{n}\n" for n in range(10_000)), None),
    "4,000 equal lines": ("0 5 * * * job\n" * 4_000, None),
    "10,000 settings": ("".join(f"V{n}=x\n" for n in range(10_000)), "settings"),
    "10,000 settings of one name": ("V=x\n" * 10_000, None),
    "10,000 comments": (f"{'# x' * 10}\n" * 10_000, None),
    "10,000 comments that were lines": ("# 0 5 * * * true\n" * 10_000, None),
    "a setting without a name": ("=x\n", "the line ends before that"),
    "a setting of ours": ("CRON_EXECUTION_ID=1\n", "cronhare itself"),
    "a shell that is none": ("SHELL=\n0 5 * * * true\n", None),
    "a home with an escape": (f"HOME=/{ESCAPES}\n0 5 * * * true\n", None),
    "a zone that is none": ("CRON_TZ=Europe/Atlantis\n0 5 * * * true\n", "unknown zone"),
    "a name that is no name": ("0 5 * * * /:::/\n", None),
    "a name in Greek": ("0 5 * * * /opt/αβγ\n", None),
    "a reboot": ("@reboot true\n", None),
    "line ends of Windows": ("0 5 * * * true\r\n", None),
    "no line end": ("0 5 * * * true", None),
    "line ends that only Python knows": ("0 5 * * * a\x0b\x0c\x1c\x85\u2028 b\n", None),
}

#: Arguments that have to be refused, and what the refusal names.
ARGUMENTS: dict[str, tuple[tuple[str, ...], str]] = {
    "bytes that are no text": (("run", "\udcff"), "udcff"),
    "an escape as a name": (("run", ESCAPES), "x1b"),
    "markup as a name": (("run", "[/red]"), "[/red]"),
    "markup as a schedule": (("explain", "[/]", "--at", "08:00"), "[/]"),
    "a name of 100,000 letters": (("run", "x" * 100_000), "no schedule"),
    "an id of 5,000 digits as a name": (("run", f"#{'9' * 5_000}"), "no schedule"),
    "no such command": (("\x1b[31m",), "No such command"),
    "a command of bytes": (("\udcff\udcfe",), "udcfe"),
    "no such option": (("run", "innocent", "--\x1b[2J"), "x1b"),
    "params of 5,000 brackets": (("run", "innocent", "--params", "[" * 5_000), "--params"),
    "params of 5,000 brackets and their ends": (
        ("run", "innocent", "--params", "[" * 5_000 + "]" * 5_000),
        "--params",
    ),
    "params of bytes": (("run", "innocent", "--params", '"\udcff"'), "udcff"),
    "params with half a surrogate": (("run", "innocent", "--params", r'"\ud800"'), "--params"),
    "params of 10^400": (("run", "innocent", "--params", "1e400"), "--params"),
    "params of 5,000 digits": (("run", "innocent", "--params", "9" * 5_000), "--params"),
    "params that are no number": (("run", "innocent", "--params", "NaN"), "--params"),
    "params that are two": (("run", "innocent", "--params", "1 2"), "--params"),
    "no params": (("run", "innocent", "--params", ""), "--params"),
    "params of 120 KB": (("run", "innocent", "--params", f'"{"x" * 120_000}"'), "params"),
    "explain in the year 1": (("explain", "innocent", "--at", "0001-01-01T00:00:00Z"), "edge"),
    "explain in the year 1, east": (
        ("explain", "innocent", "--at", "0001-01-01T00:00:00+14:00"),
        "edge",
    ),
    "explain in the year 9999": (
        ("explain", "innocent", "--at", "9999-12-31T23:59:59-14:00"),
        "edge",
    ),
    "explain with no time": (("explain", "innocent", "--at", "\x1b"), "no time"),
    "explain with a time of 100,000 digits": (
        ("explain", "innocent", "--at", "1" * 100_000),
        "no time",
    ),
    "next from the year 1": (("next", "* * * * *", "--from", "0001-01-01"), "edge"),
    "next from the year 9999": (("next", "* * * * *", "--from", "9999-12-31T23:59"), "edge"),
    "next after all there is": (
        ("next", "0 0 29 2 *", "--from", "9999-01-01T00:00Z", "--timezone", "Asia/Tokyo"),
        "",
    ),
    "next with a zone of bytes": (("next", "* * * * *", "--timezone", "\udcff"), "udcff"),
    "an execution of 5,000 digits": (("executions", "show", "9" * 5_000), "execution_id"),
    "an execution of 2^63": (("executions", "show", str(2**63)), "execution_id"),
    "an execution of nothing": (("executions", "show", "0"), "execution_id"),
    "an execution below nothing": (("executions", "show", "--", "-1"), "execution_id"),
    "the output of 2^64": (("executions", "logs", str(2**64)), "no number of an execution"),
    "to cancel 2^64": (("executions", "cancel", str(2**64)), "execution_id"),
    "a limit of nothing": (("executions", "list", "--limit", "0"), "--limit"),
    "a limit of 5,000 digits": (("executions", "list", "--limit", "9" * 5_000), "--limit"),
    "no such state": (("executions", "list", "--state", "\x1b"), "--state"),
    "a failure of 2^64": (("failed", "show", str(2**64)), "archived_id"),
    "to replay 2^64": (("failed", "replay", str(2**64)), "ids"),
    "to replay as fast as nan": (("failed", "replay", "--all", "--rate", "nan"), "--rate"),
    "to replay for ever": (("failed", "replay", "--all", "--rate", "1e-300"), "--rate"),
    "to replay per nothing": (("failed", "replay", "--all", "--per", "\x1b"), "--per"),
    "to replay per an abyss": (
        ("failed", "replay", "--all", "--per", f"params{'.a' * 500}"),
        "--per",
    ),
    "to replay with a canary of 2^64": (
        ("failed", "replay", "--all", "--canary", str(2**64)),
        "--canary",
    ),
    "to replay for somebody else": (("failed", "replay", "--all", "--by", "\x1b[2J"), "--by"),
    "to stop replay 2^64": (("replays", "stop", str(2**64)), "replay_id"),
    "to discard nothing": (("failed", "discard"), "say which"),
    "a file that is not there": (("check", "nowhere.toml"), "nowhere.toml"),
    "a file of bytes": (("check", "\udcff.toml"), "udcff"),
    "a file with an escape": (("check", "\x1b[2J.toml"), "x1b"),
    "a file of a long name": (("check", "x" * 5_000), "too long"),
    "a folder": (("check", "."), "directory"),
    "a file without an end": (("check", "/dev/zero"), "MiB"),
    "a crontab that is not there": (("import", "crontab", "nowhere"), "nowhere"),
    "a crontab without an end": (("import", "crontab", "/dev/zero"), "MiB"),
    "a crontab of no kind": (("import", "crontab", "--kind", "\x1b", "x"), "--kind"),
    "a crontab for no zone": (("import", "crontab", "--timezone", "Mars", "innocent"), "Mars"),
    "a crontab for nobody": (("import", "crontab", "--run-as", "\x1b", "innocent"), "--run-as"),
    "a crontab to a folder that is not there": (
        ("import", "crontab", "innocent", "-o", "no/where"),
        "no/where",
    ),
    "a worker of nobody": (("worker", "--concurrency", "0"), "--concurrency"),
    "a worker of a queue of bytes": (("worker", "--queues", "\udcff"), ""),
}
#: Arguments that ask for something that can be done, be it to find nothing.
ARGUMENTS_TAKEN: dict[str, tuple[str, ...]] = {
    "a schedule of 5,000 digits": ("executions", "list", "--schedule", f"#{'9' * 5_000}"),
    "a schedule of another tongue": ("executions", "list", "--schedule", "日本語"),
    "a schedule with an escape": ("executions", "list", "--schedule", ESCAPES),
    "a schedule like a wildcard": ("executions", "list", "--schedule", "%' OR 1=1 --"),
    "a note with an escape": ("failed", "discard", "--all", "--note", ESCAPES),
}

#: Settings that have to be refused by whoever reads them, and what the refusal names.
SETTINGS: dict[str, tuple[str, str]] = {
    "CRON_MAX_RETRIES": ("9" * 5_000, "CRON_MAX_RETRIES"),
    "CRON_RETRY_DELAY_MS": ("1e400", "CRON_RETRY_DELAY_MS"),
    "CRON_RETRY_DELAY_MULTIPLIER": ("nan", "CRON_RETRY_DELAY_MULTIPLIER"),
    "CRON_REFRESH_SECONDS": ("1e400", "CRON_REFRESH_SECONDS"),
    "CRON_LEASE_SECONDS": ("-inf", "CRON_LEASE_SECONDS"),
    "CRON_SHUTDOWN_GRACE_SECONDS": ("\udcff", "CRON_SHUTDOWN_GRACE_SECONDS"),
    "CRON_CONCURRENCY": (ESCAPES, "CRON_CONCURRENCY"),
    "CRON_QUEUE_TYPE": (ESCAPES, "CRON_QUEUE_TYPE"),
    "CRON_FAILED_MONITOR": ("perhaps\x1b[2J", "CRON_FAILED_MONITOR"),
    "CRON_LOG_FORMAT": ("\udcff", "CRON_LOG_FORMAT"),
    "CRON_LOG_LEVEL": ("x" * 100_000, "CRON_LOG_LEVEL"),
    "CRON_DATABASE_URL": ("\udcff://\x1b[2J", "CRON_DATABASE_URL"),
    "CRON_BROKER_URL": ("\x1b[2J\udcff", "CRON_BROKER_URL"),
    "CRON_DATABASE_URL_FILE": ("/nowhere/\x1b[2J", ""),
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


def _argue_well(here: Commands, arguments: tuple[str, ...]) -> Answer:
    return handled(here(*arguments))


def _set(here: Commands, name: str, value: str, naming: str) -> Answer:
    return refused(here("schedules", **{name: value}), naming=naming)


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
        *("bytes that are no text", "params of 5,000 brackets", "explain in the year 9999"),
        *("markup as a name", "CRON_MAX_RETRIES of nonsense"),
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
    for name, arguments in ARGUMENTS_TAKEN.items():
        yield f"found nothing: {name}", partial(_argue_well, arguments=arguments)
    for name, (value, naming) in SETTINGS.items():
        yield f"{name} of nonsense", partial(_set, name=name, value=value, naming=naming)


BOUNDARY = Boundary(
    name="texts",
    at=commands,
    entries=[Entry(name, attempt, short=name in SHORT) for name, attempt in _entries()],
    by_chance=_by_chance,
)
assert not SHORT - {entry.name for entry in BOUNDARY.entries}, "each of them is an entry"
