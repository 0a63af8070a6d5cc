"""The commands, as a person or a pipe calls them; no traceback, ever, whatever the streams are."""

import json
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import pytest
from sqlalchemy import URL

from tests.integration.shell import PROGRAM, Said, Shell, clean_environment

pytestmark = pytest.mark.integration

#: Seconds after which something hangs, however busy the machine.
HANGS = 60.0

TASK = """
[tasks.report]
id = 1
command = ["true"]
"""

JOBS = (
    TASK
    + """
[schedules.nightly]
task = "report"
schedule = "30 2 * * *"
timezone = "Europe/Berlin"

[schedules.by-hand]
task = "report"
on_start = true
params = { who = "world" }
"""
)


@pytest.fixture
def empty(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a jobs file, and a ledger that has it."""
    shell = Shell(tmp_path_factory.mktemp("applied"))
    shell.write(JOBS)
    assert shell("db", "upgrade").status == 0
    assert shell("apply", "jobs.toml").status == 0
    return shell.folder


@pytest.fixture
def shell(applied: Path, tmp_path: Path) -> Shell:
    """A shell in a folder of its own beside a ledger with two schedules."""
    return Shell(copytree(applied, tmp_path / "beside"))


TASKS = '[tasks.pay]\ncommand = ["true"]\n'
NAMED = '[schedules.pay]\ntask = "pay"\nschedule = "@daily"\nskip_on = ["de-holidays"]\n'
CALENDAR = '[calendars.de-holidays]\ndays = { 12-25 = "Christmas" }\n'
TOPIC = '[schedules.pay]\nschedule = "@daily"\ntopic = "orders.piad"\nqueue = "mial"\n'
SOUND = '[tasks.{0}]\ncommand = ["true"]\n[schedules.nightly]\ntask = "{0}"\n'

#: Files that are there.
FILES = {
    "other.toml": 'jobs = "jobs.toml"\n',
    "less.toml": JOBS.partition("[schedules.by-hand]")[0],
    "bad.toml": f"""{JOBS}
[schedules.broken]
task = "repport"
schedule = "61 2 30 2 *"
timezone = "Europe/Berlyn"
retry = {{ attempts = 21, backoff = {{ delay = 5 }} }}
[schedules.never]
task = "report"
schedule = "0 0 30 2 *"
""",
    "b.toml": f'{SOUND.format("b")}schedule = "30 2 * * *"\n',
    "d.toml": f'{SOUND.format("d")}schedule = "30 2 * * *"\n',
    "typo.toml": TASKS + NAMED.replace("de-holidays", "de-holiday"),
    "named.toml": TASKS + NAMED,
    "tasks.toml": TASKS,
    "both.toml": TASKS + NAMED + CALENDAR,
    "shared.toml": TASKS.replace("pay", "shared") + CALENDAR,
    "unshared.toml": TASKS.replace("pay", "shared"),
    "topic.toml": f'{TASKS}topics = ["orders.paid"]\n{TOPIC}',
    "piad.toml": '[tasks.piad]\ncommand = ["true"]\ntopics = ["orders.piad"]\n',
    "crontab": "0 5 * * * root ls\n@every x y\n",
    "spoilt.sqlite3": "SQLite format 3\0 and so on",
}

#: What is typed one after the other on a ledger with JOBS beside FILES: the status, and parts of
#: what is said. A line that begins with $ is for the shell.
SESSIONS = {
    "runs": """
        run by-hand --params '{"who":"you"}' | 0 | Execution 1 (manual- | is on its way
        executions show 1 | 0 | claimed | {"who": "you"}
        executions show 1 --json | 0 | "state": "claimed" | "who": "you"
        explain 1 | 0 | It was claimed, and the broker has not taken it yet
        explain 1 --json | 0 | "schedule_name": "by-hand"
        explain nightly --at 2026-03-29T08:00Z | 0 | It was not due then
        queues | 0 | QUEUE | SCHEDULES | WAITING | cron_scheduler
        executions list --task report --since 1h | 0 | by-hand
        executions list --task report --until 1h | 0 | No executions.
        executions list --task lonely | 2 | there is no task 'lonely'
        executions cancel | 2 | say which
        executions cancel 1 | 0 | Execution 1 is cancelled.
        executions cancel --schedule by-hand | 0 | All executions of by-hand have ended.
        executions list --state cancelled | 0 | by-hand
        failed list --since 2100-01-01 | 2 | --since: 2100-01-01 00:00Z is still to come
        failed list --since 2025-01-01T22:00 --task report | 0 | None since 2025-01-01 22:00Z.
    """,
    "schedules": """
        schedules show nightly | 0 | 30 2 * * * | report of jobs.toml (worker 1) | 02:30 CE
        schedules disable nightly | 0 | nightly is off. | status = false there
        schedules disable nightly | 0 | nightly is off already.
        schedules enable nightly | 0 | nightly is on. | status = true there
        schedules pause nightly by-hnd --until 2h | 2 | did you mean by-hand
        schedules pause nightly by-hand --until 2020-01-01 | 2 | is over
        schedules show by-hand --json | 0 | "pause": null
        schedules pause nightly by-hand --until 2h --by ann | 0 | by-hand is paused by ann
        schedules pause nightly --by bob | 0 | by ann | cronhare schedules resume nightly
        schedules resume nightly by-hand | 0 | nightly goes on. | by-hand goes on.
        schedules resume nightly | 0 | nightly was not paused.
    """,
    "deleting": """
        schedules delete by-hand | 2 | `cronhare schedules delete by-hand --jobs FILE`
        schedules delete by-hand --jobs jobs.toml | 2 | take it out there first
        run by-hand | 0 | Execution 1
        $ cp less.toml jobs.toml
        schedules delete by-hand --jobs jobs.toml --with-history | 2 | 1 execution that may
        executions cancel 1 | 0 | is cancelled
        schedules delete by-hand --jobs jobs.toml | 2 | --with-history
        schedules delete by-hand --jobs jobs.toml --with-history | 0 | Deleted by-hand
        schedules show by-hand | 2 | no schedule 'by-hand'
        audit list | 0 | schedule.delete
    """,
    "exporting": """
        schedules export | 0 | [schedules.nightly] | 2 schedules of jobs.toml
        schedules export --output copy.toml --json | 0 | "differs": {} | "left_out": {}
        plan copy.toml | 0 | 0 added, 0 changed, 0 disabled, 2 as they were
        schedules export -o copy.toml | 2 | copy.toml is there already
        schedules export nightly | 0 | Applied, it disables by-hand
        schedules export --by-hand --source x | 2 | leave one of the two out
    """,
    "backfilling": """
        schedules backfill nightly YEAR --dry-run | 0 | 365 instants of nightly; nothing
        schedules backfill nightly YEAR --dry-run --json | 0 | "since": "2024-12-31T23:00:00Z"
        schedules backfill nightly YEAR --at-once 3 --by ann | 0 | Backfill 1: 365 instants
        replays list | 0 | backfill | active
        replays show 1 | 0 | ann | 3 with the same schedule | "since": "2024-12-31T23:00:00Z"
        replays stop 1 | 0 | stopped
        replays resume 1 | 0 | active
    """,
    "files": """
        check | 2 | Name it: cronhare check jobs.toml, or CRON_JOBS.
        CRON_JOBS=jobs.toml plan | 0 | 0 added, 0 changed, 0 disabled, 2 as they were
        --config other.toml apply | 0 | 2 as they were
        db upgrade | 0 | sqlite:///cronhare.sqlite3 (FOLDER/cronhare.sqlite3) is up to date
        $ cp less.toml jobs.toml
        check jobs.toml | 0 | What it would change: cronhare plan jobs.toml
        plan jobs.toml | 0 | - by-hand | To make it so: cronhare apply jobs.toml | FOLDER/
        apply jobs.toml | 0 | 1 disabled | then: cronhare schedules | FOLDER/cronhare.sqlite3
    """,
    "faults": """
        apply bad.toml | 2 | schedules.broken: task: | minute: 61 is outside 0-59 | timezone:
        apply bad.toml | 2 | SCHEDULE_RETRY_POLICY_INVALID: attempts: 21 is not | backoff.delay: 5
        apply bad.toml | 2 | schedules.never: schedule: never fires | Nothing was applied.
        schedules show broken | 2 | no schedule 'broken'
        check bad.toml missing.toml b.toml d.toml | 2 | 6 faults in 2 places | missing.toml: No such
        check bad.toml b.toml d.toml | 2 | another jobs file has the same names | cronhare check bad
    """,
    "calendars": """
        $ cp typo.toml pay.toml
        check pay.toml | 0 | skip_on: there is no calendar de-holiday; there are none
        check pay.toml shared.toml | 0 | did you mean de-holidays?
        apply shared.toml | 0 | as they were; 1 calendar added
        plan pay.toml | 2 | did you mean de-holidays?
        apply pay.toml | 2 | did you mean de-holidays?
        $ cp named.toml pay.toml
        apply pay.toml | 0 | 1 added
        $ cp unshared.toml shared.toml
        apply shared.toml | 2 | would be removed, and is named by pay of pay.toml
        $ cp tasks.toml pay.toml
        apply pay.toml | 0 | 1 disabled
        apply shared.toml | 0 | ; 1 calendar removed
        $ cp both.toml pay.toml
        apply pay.toml | 0 | 1 calendar added
        schedules export --source pay.toml -o copy.toml | 0 | 1 schedule and 1 calendar of pay.toml
        plan copy.toml | 0 | 1 as they were.
    """,
    "topics": """
        check topic.toml | 0 | no task of this jobs file listens to 'orders.piad', another
        check topic.toml | 0 | did you mean orders.paid?
        check topic.toml piad.toml | 0 | 1 task and 0 schedules, no faults
        CRON_QUEUES=mail:3 check topic.toml | 0 | no worker with this CRON_QUEUES serves 'mial'
        CRON_QUEUES=mail:3 check topic.toml | 0 | did you mean mail?
    """,
    "crontabs": """
        import crontab crontab | 0 | without a user column (otherwise: --kind system)
        import crontab crontab | 0 | lines begin with accounts of this host: root.
        import crontab crontab missing --kind system -o new.toml | 2 | missing: No such file
        check new.toml | 0 | no faults
        import crontab crontab --kind system -o new.toml | 2 | new.toml is there already
        import crontab crontab --kind system | 0 | crontab:2: left out | 1 job carried over
    """,
    "mistakes": """
        run nightli | 2 | did you mean nightly?
        run nightly --params {no | 2 | --params is not JSON
        executions show 99 | 2 | there is no execution 99
        executions list --state runing | 2 | '--state': 'runing' is not one of 'claimed'
        failed show 7 | 2 | the archive has no row 7
        failed replay --queue cron_sheduler | 2 | did you mean cron_scheduler?
        failed replay --all --rate 0 | 2 | --rate: 0 is not 0.01-1,000
        failed replay --all --stop-at 2x | 2 | --stop-at: '2x' is neither
        failed replay 7 --rate 5 | 2 | --rate: numbers begin at once
        replays stop 7 | 2 | there is no replay 7
        schedules backfill nightly --since never --until 2026-01-01 | 2 | "never" is no time
        schedules backfill nightly YEAR --rate nan --at-once 0 | 2 | --rate: nan is not 0.01-1,000
        service install wroker | 2 | 'wroker' is not one of 'up', 'scheduler', 'worker'
        next '61 2 * * MOO' | 2 | minute: 61 is outside 0-59
        apply missing.toml | 2 | missing.toml: No such file
        check . | 2 | Is a directory
    """,
}


@pytest.mark.parametrize("name", SESSIONS)
def test_commands_do_what_they_are_for_and_say_so(shell: Shell, name: str) -> None:
    for file, content in FILES.items():
        shell.write(content, file)
    for line in SESSIONS[name].strip().splitlines():
        command, *expected = (part.strip() for part in line.split(" | "))
        if command.startswith("$ "):
            subprocess.run(["sh", "-c", command[2:]], cwd=shell.folder, check=True)
            continue
        words = shlex.split(command.replace("YEAR", "--since 2025-01-01 --until 2026-01-01"))
        settings = dict(word.split("=") for word in words if word.startswith("CRON_"))

        said = shell(*words[len(settings) :], **settings)

        assert str(said.status) == expected[0], (command, said)
        assert "Traceback" not in said.err
        assert "Value error" not in said.err
        for part in expected[1:]:
            assert part.replace("FOLDER", str(shell.folder)) in said.out + said.err, (command, said)


def test_a_broken_row_is_listed_as_such_and_cannot_be_run(shell: Shell) -> None:
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as ledger, ledger:
        ledger.execute("UPDATE Scheduler SET timezone = 'Mars/Base' WHERE name = 'nightly'")

    said = shell("run", "nightly")

    assert (said.status, "its row is broken: timezone: unknown zone" in said.err) == (2, True)
    assert "broken: timezone" in shell("schedules").out


def test_a_ledger_on_a_server_is_named_without_its_user_and_password(
    empty: Shell, empty_mysql: URL
) -> None:
    url = empty_mysql.render_as_string(hide_password=False)

    said = empty("db", "upgrade", CRON_DATABASE_URL=url)

    assert f"//{empty_mysql.host}:{empty_mysql.port}/{empty_mysql.database} to " in said.out
    assert str(empty_mysql.password) not in said.out + said.err


def test_a_ledger_is_copied_while_somebody_writes_and_nothing_is_written_over(shell: Shell) -> None:
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as writer:
        writer.execute("UPDATE Scheduler SET status = 0")  # and does not commit
        said = shell("db", "backup", "copy.sqlite3")
    again = shell("db", "backup", "copy.sqlite3")
    shell.write("SQLite format 3\0 and so on", "bad.sqlite3")
    urls = ("mysql://u:secret@db/cron", "postgresql://u:secret@db/cron", "sqlite:///bad.sqlite3")
    not_copied = [shell("db", "backup", "other", CRON_DATABASE_URL=url) for url in urls]

    assert (said.status, again.status) == (0, 2)
    assert "copy.sqlite3: File exists" in again.err
    assert [each.status for each in not_copied] == [2, 2, 3]
    assert "mariadb-dump --single-transaction cron" in not_copied[0].err
    assert "pg_dump cron" in not_copied[1].err
    assert not (shell.folder / "other").exists()
    assert (shell.folder / "copy.sqlite3").stat().st_mode & 0o777 == 0o600
    listed = [
        shell("schedules", "--json", CRON_DATABASE_URL=f"sqlite:///{name}.sqlite3").json()
        for name in ("cronhare", "copy")
    ]
    assert listed[0] == listed[1] != []


def test_a_copy_that_is_cut_off_has_not_the_name_of_a_whole_one(shell: Shell) -> None:
    cut_off = """
import os, signal
from pathlib import Path
from cronhare.adapters.sql.dialects.sqlite_file import copy_to
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGTERM)
copy_to(Path("cronhare.sqlite3"), Path("copy.sqlite3"))
"""
    ended = subprocess.run(
        [sys.executable, "-c", cut_off], cwd=shell.folder, timeout=HANGS, check=False
    )
    left = {path.name for path in shell.folder.glob("copy*")}

    said = shell("db", "backup", "copy.sqlite3")

    assert (ended.returncode, left) == (-signal.SIGTERM, {"copy.sqlite3.part"})
    assert said.status == 0
    assert {path.name for path in shell.folder.glob("copy*")} == {"copy.sqlite3"}


def test_a_failure_is_shown_in_the_names_of_the_original(shell: Shell) -> None:
    error = {"message": "no answer", "stack": "Error: no answer\n    at x.js:45:15"}
    row = {"id": 7, "execution_id": 42, "task_name": "report", "error": json.dumps(error)}
    add_failures(shell, row | {"options": '{"attempts": 4}'})

    shown = shell("failed", "show", "7", "--json").json()["failure"]["dead_letter"]

    assert shown == {
        "originalQueue": "cron_scheduler",
        "originalJobId": "42",
        "originalJobName": "report",
        "originalData": {"type": "report", "id": 1, "scheduler_id": 1, "params_scheduler": "{}"},
        "originalOptions": {"attempts": 4},
        "failureReason": "no answer",
        "failureStack": "Error: no answer\n    at x.js:45:15",
        "attemptsMade": 4,
        "failedAt": "2026-03-02T12:00:00.000Z",
        "poisonPillRecord": None,
        "quarantinedAt": None,
    }


def add_failures(shell: Shell, *failures: Mapping[str, object]) -> None:
    """Write failures, of no execution; what a row does not say is the same in all."""
    usual = {
        "execution_id": 0,
        "scheduler_id": 1,
        "schedule_name": "nightly",
        "execution_key": "key",
        "kind": "failed",
        "task_type": "report",
        "task_id": 1,
        "queue": "cron_scheduler",
        "params": "{}",
        "failed_reason": "no answer",
        "failed_at": "2026-03-02 12:00:00.000000",
        "attempts": 4,
        "retry_count": 3,
    }
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as ledger, ledger:
        for failure in failures:
            row = {**usual, **failure}
            marks = ", ".join("?" * len(row))
            sql = f"INSERT INTO FailedTask ({', '.join(row)}) VALUES ({marks})"
            ledger.execute(sql, [*row.values()])


def stored(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S.%f}"


def test_the_weekly_report_is_of_7_days_and_has_100_lines(shell: Shell) -> None:
    now = datetime.now(UTC)
    within, before = now - timedelta(days=6, hours=23), now - timedelta(days=7, hours=1)
    old = {"failed_at": stored(before), "failed_reason": "older"}
    reasons = [{"failed_at": stored(within), "failed_reason": f"reason {n}"} for n in range(101)]
    add_failures(shell, *reasons, old, old)

    report = shell("failed", "stats", "--by", "reason", "--json").json()
    more = shell("failed", "stats", "--by", "reason", "--json", "--limit", "200", "--since", "8d")

    assert (len(report), len(more.json())) == (100, 102)
    assert (more.json()[0]["failed_reason"], more.json()[0]["failed_count"]) == ("older", 2)
    assert "older" not in {line["failed_reason"] for line in report}


def test_a_replay_by_a_filter_answers_how_many_it_is_of(shell: Shell) -> None:
    add_failures(shell, {}, {}, {}, {"failed_reason": "other"})
    asked = ("failed", "replay", "--reason", "no answer")

    before = shell(*asked, "--dry-run", "--json").json()
    ordered = shell(*asked)

    assert before == {"failures": 3}
    assert "Replay 1: 3 failures, at most 10 a second, in the background." in ordered.out


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["people", "machines"])
def test_failures_are_watched_as_they_come(shell: Shell, options: tuple[str, ...]) -> None:
    now = datetime.now(UTC)
    older = {"failed_at": stored(now - timedelta(hours=2)), "failed_reason": "older"}
    add_failures(shell, older, {"failed_at": stored(now)})
    asked = ("failed", "list", "--schedule", "nightly", "--since", "1h", "--watch", *options)
    with shell.begin(*asked) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        add_failures(shell, {"failed_at": stored(now), "failed_reason": "gone"})
        second = process.stdout.readline()
        process.kill()

    if options:
        reasons = [[one["failed_reason"] for one in json.loads(line)] for line in (first, second)]
        assert reasons == [["no answer"], ["gone"]]
    else:
        assert first.split(maxsplit=1)[0] == "2"
        assert first.endswith("failed      #4   nightly: no answer\n")
        assert second.endswith("nightly: gone\n")


def test_failures_and_runs_are_counted(shell: Shell) -> None:
    reason = "no\x1b[31m\nanswer"
    for retries in (3, 2):
        add_failures(shell, {"failed_reason": reason, "retry_count": retries})
    shell("run", "nightly")
    since = ("--since", "2026-03-01T00:00Z", "--until", "2026-03-03T00:00Z")

    by_day = shell("failed", "stats", *since, "--json").json()
    report = shell("failed", "stats", *since, "--by", "reason").out
    ever = shell("failed", "stats", "--since", "36500d", "--by", "type")
    [runs] = shell("executions", "stats", "--by", "type", "--json").json()
    wrong = shell("executions", "stats", "--by", "reason")

    [found] = by_day
    asked = ("date", "type", "failed_count", "avg_retries", "task")
    assert [found[each] for each in asked] == ["2026-03-02", "report", 2, 2.5, None]
    assert "no\\x1b[31m" in report
    assert "2.50" in report
    assert ever.status == 0
    assert (runs["total"], runs["succeeded"], runs["date"]) == (1, 0, None)
    assert wrong.status == 2
    assert "--by reason: only failures have one" in wrong.err


def test_metrics_are_printed_and_written_into_a_file(shell: Shell) -> None:
    sent = {"queue": "mails", "task_name": "send"}
    add_failures(shell, sent, sent | {"resolution": "replayed"})
    shell("run", "nightly")

    printed = shell("metrics")
    written = shell("metrics", "--textfile", "cronhare.prom")
    refused = shell("metrics", "--textfile", "missing/cronhare.prom")

    assert 'job_queue_dlq_jobs_total{job_name="send",source_queue="mails"} 2.0' in printed.out
    assert "job_queue_dlq_depth 1.0" in printed.out
    unfinished = 'cronhare_executions_unfinished{queue="cron_scheduler",state="claimed"} 1.0'
    assert unfinished in printed.out
    assert (written.status, written.out) == (0, "")
    assert _steady((shell.folder / "cronhare.prom").read_text()) == _steady(printed.out)
    assert refused.status == 2
    assert "missing/cronhare.prom: No such file or directory" in refused.err


def _steady(metrics: str) -> list[str]:
    """Leave out what is another number a moment later."""
    return [line for line in metrics.splitlines() if not re.match(r"cronhare_\w+_seconds", line)]


RELEASES = (("quarantine", "release"), ("failed", "replay"))


def test_what_is_quarantined_is_listed_shown_and_discarded_by_a_filter(shell: Shell) -> None:
    crashed: dict[str, object] = {"crash_count": 3, "first_crash_at": "2026-03-02 11:58:00.000000"}
    pill = crashed | {"kind": "quarantined"}
    add_failures(
        shell,
        pill | {"id": 7, "schedule_name": "pill"},
        crashed | {"id": 8, "schedule_name": "other"},
        pill | {"id": 9, "schedule_name": "spoilt"},
    )

    shown = shell("quarantine", "show", "7").out
    refused = shell("quarantine", "release", "8")
    unsaid = shell("quarantine", "discard", "7", "--all")
    nothing = [shell(*words, "--reason", "nothing like that") for words in RELEASES]
    looked_at_nothing = shell("quarantine", "release", "--reason", "nothing like that", "--dry-run")
    looked = [shell("quarantine", "release", which, "--dry-run").out for which in ("7", "--all")]
    ordered = shell("replays", "list", "--json").json()
    done = shell("quarantine", "discard", "--schedule", "pill", "--note", "known", "--json")
    listed = json.loads(shell("quarantine", "list", "--all", "--json").out)["quarantined"]

    assert "3 from 2026-03-02 11:58:00Z on" in shown
    assert (refused.status, "8: failed, and not quarantined" in refused.err) == (2, True)
    assert (unsaid.status, "say which" in unsaid.err) == (2, True)
    assert [(said.status, said.out) for said in nothing] == [
        (2, f"No {thing} matches: nothing was changed.\n") for thing in ("execution", "failure")
    ]
    assert (looked_at_nothing.status, looked_at_nothing.out.split()[0]) == (0, "0")
    assert looked == [
        "1 execution would be released; nothing was changed.\n",
        "2 executions would be released; nothing was changed.\n",
    ]
    assert ordered == []
    assert json.loads(done.out) == {"asked": 1, "failures": 1, "resolved_before": 0}
    assert [(row["id"], row["note"]) for row in listed] == [(9, None), (7, "known")]
    assert (
        listed[1]["dead_letter"]["poisonPillRecord"]["firstCrashAt"] == "2026-03-02T11:58:00.000Z"
    )


def test_plan_shows_what_apply_would_do_with_the_types_of_a_schedule(shell: Shell) -> None:
    changed = 'timeout = "90s"\nmisfire = { policy = "once", window = "1h" }'
    shell.write(JOBS.replace('timezone = "Europe/Berlin"', changed).partition("[schedules.by-")[0])

    said, as_json = shell("plan", "jobs.toml"), shell("plan", "jobs.toml", "--json").json()

    assert "~ nightly" in said.out
    assert "timezone: Europe/Berlin → UTC" in said.out
    assert "- by-hand" in said.out
    [nightly] = [change for change in as_json if change["name"] == "nightly"]
    assert nightly["change"] == "change"
    assert nightly["fields"] == [
        {"field": "timezone", "before": "Europe/Berlin", "after": "UTC"},
        {"field": "misfire_window_seconds", "before": 604800.0, "after": 3600.0},
        {"field": "timeout_seconds", "before": None, "after": 90.0},
    ]


def test_settings_are_shown_with_their_types(empty: Shell) -> None:
    said = empty(
        *("settings", "--json"),
        CRON_QUEUES="a, b:3 ,a",
        CRON_LEASE_SECONDS="4.5",
        CRON_FAILED_MONITOR="off",
    )

    shown = {each["name"]: (each["value"], each["source"]) for each in said.json()["settings"]}
    assert shown["queues"] == (["a", "b:3"], "environment")
    assert shown["lease_seconds"] == (4.5, "environment")
    assert shown["failed_monitor"] == (False, "environment")
    assert shown["max_retries"] == (3, "default")


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["people", "machines"])
def test_who_waits_for_a_run_knows_its_number_and_that_nobody_takes_it_up(
    shell: Shell, options: tuple[str, ...]
) -> None:
    with shell.begin("run", "nightly", "--wait", *options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told, other = (process.stderr, "out") if options else (process.stdout, "err")
        line = told.readline()
        silence = next(each for each in process.stderr if "is claimed" in each)
        process.send_signal(signal.SIGINT)
        rest = dict(zip(("out", "err"), process.communicate(timeout=HANGS), strict=True))

    assert line.startswith("Execution 1 (manual-")
    assert "Follow it: cronhare executions show 1. Ctrl-C ends the wait, and not the run" in line
    assert "nobody has taken it up yet. Why, says `cronhare doctor`" in silence
    assert (process.returncode, rest[other]) == (130, "")
    assert shell("executions", "show", "1", "--json").json()["execution"]["state"] == "claimed"


@pytest.mark.parametrize("command", ["executions list", "doctor"])
def test_a_url_that_cannot_be_used_is_a_sentence_for_every_command(
    empty: Shell, command: str
) -> None:
    faults = {
        "CRON_DATABASE_URL": "mysql+pymysql://u:secret@127.0.0.1/",
        "CRON_BROKER_URL": "amqp://u:secret@h/?color=red",
    }

    said = empty(*command.split(), **faults)

    assert said.status == 2
    assert "CRON_DATABASE_URL: a database URL ends with the name" in said.out + said.err
    assert "the broker URL has an option that is not known" in said.out + said.err
    assert "secret" not in said.out + said.err
    assert "Traceback" not in said.err
    assert list(empty.folder.iterdir()) == []


AMQP = {"CRON_BROKER_URL": "amqp://localhost/nobody"}
MANY_QUEUES = ",".join(f"q{number}" for number in range(257))


@pytest.mark.parametrize(
    ("command", "settings", "reason"),
    [
        ("up", {"CRON_MAX_RETRIES": "x", "CRON_LOG_LEVEL": "y"}, "CRON_MAX_RETRIES|CRON_LOG_LEVEL"),
        ("scheduler", {}, "CRON_BROKER_URL: memory:// is a broker inside of one process"),
        (
            "up --jobs jobs.toml",
            {"CRON_DATABASE_URL": "mysql+pymysql://u:secret@127.0.0.1:1/cronhare"},
            "CRON_BROKER_URL: memory:// is a broker inside of this process|sqlite:///",
        ),
        (
            "worker --queues mails,cron_scheduler_failed",
            AMQP,
            "--queues: cron_scheduler_failed is one of the system's own queues",
        ),
        (f"worker --queues {MANY_QUEUES}", AMQP, "names 257 queues, more than 256"),
        ("up --jobs many.toml", AMQP, " queues, more than 256|Nothing was started"),
        (
            "worker --queues ours,theirs",
            AMQP | {"CRON_FOREIGN_QUEUES": "theirs"},
            "theirs: another program serves it, by CRON_FOREIGN_QUEUES",
        ),
        ("up", AMQP, "no jobs file is named|Name it: --jobs jobs.toml, or CRON_JOBS."),
        ("web", {}, "no jobs file is named|nothing could be created"),
        ("up --jobs bad.toml", {}, "6 faults in 2 places|Nothing was started."),
        ("worker --jobs empty.toml", AMQP, "empty.toml has no task at all|apply empty.toml"),
    ],
)
def test_a_process_that_could_do_no_good_is_not_started_and_says_why(
    empty: Shell, command: str, settings: dict[str, str], reason: str
) -> None:
    empty.write(JOBS)
    empty.write("# in the middle of being written\n", "empty.toml")
    empty.write(FILES["bad.toml"], "bad.toml")
    tables = (
        f'[schedules.{name}]\ntask = "report"\nschedule = "@daily"\nqueue = "{name}"\n'
        for name in MANY_QUEUES.split(",")
    )
    empty.write(f"{TASK}{''.join(tables)}", "many.toml")

    said = empty(*command.split(), **settings)

    assert said.status == 2
    assert all(part in said.err for part in reason.split("|"))
    assert "secret" not in said.err
    assert not [*empty.folder.glob("*.sqlite3")]


#: Calls the command, and sends it what asks for a reload and for its state at each import.
ASKED_AT_EACH_IMPORT = """
import os, signal, sys
from cronhare.entrypoints.cli.app import main

def look(event, _):
    if event == "import":
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGUSR1)

sys.addaudithook(look)
main()
"""


def test_no_signal_that_asks_for_something_ends_a_process_that_begins(empty: Shell) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKED_AT_EACH_IMPORT, "--config", "none", "worker", "--help"],
        cwd=empty.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "SIGHUP has it read jobs file, app and settings" in done.stdout


def test_ctrl_c_is_quiet_while_a_command_prints(empty: Shell) -> None:
    with empty.begin("next", "* * * * *", "--count", "10000") as process:  # more than a pipe holds
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANGS)

    assert (process.returncode, said) == (130, "")


MANY = "next '* * * * *' --count 10000"


def sh(script: str, folder: Path) -> Said:
    """Run a line of shell, in which `$cronhare` is the program."""
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=folder,
        env=clean_environment() | {"TZ": "UTC", "cronhare": str(PROGRAM)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("command", ["--version", "next '* * * * *' --count 900"])
@pytest.mark.parametrize(
    ("stdout", "why"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_output_that_goes_nowhere_is_told(
    tmp_path: Path, command: str, stdout: str, why: str
) -> None:
    said = sh(f"$cronhare {command} {stdout}", tmp_path)

    assert said.status == 2
    assert said.err.startswith(f"cronhare: standard output: {why}")
    assert said.err.count("\n") == 1


def test_whoever_reads_no_further_is_told_nothing(tmp_path: Path) -> None:
    said = sh(f"{{ $cronhare {MANY}; echo $? >&2; }} | head -n 1", tmp_path)

    assert said.err == "141\n"
    assert said.out.startswith("UTC")


@pytest.mark.parametrize("streams", ["2>&-", ">/dev/full 2>/dev/full"])
def test_without_standard_error_the_status_still_tells(tmp_path: Path, streams: str) -> None:
    said = sh(f"$cronhare check nowhere.toml {streams}", tmp_path)

    assert said == Said(2, "", "")


def test_a_file_that_is_opened_does_not_become_standard_output(tmp_path: Path) -> None:
    (tmp_path / "crontab").write_text("0 5 * * * true\n")

    said = sh("$cronhare import crontab crontab -o jobs.toml <&- >&- 2>&-", tmp_path)

    assert said.status == 0
    assert (tmp_path / "jobs.toml").read_text().startswith("# Imported from")
    assert "carried over" not in (tmp_path / "jobs.toml").read_text()


def test_a_terminal_that_knows_no_unicode_is_told_in_ascii(tmp_path: Path) -> None:
    said = sh("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 $cronhare run 日本", tmp_path)

    assert said.status == 2
    assert "Traceback" not in said.err
    said.err.encode("ascii")


def test_a_crontab_can_come_through_a_pipe(tmp_path: Path) -> None:
    said = sh("echo '0 5 * * * make-report' | $cronhare import crontab -", tmp_path)

    assert (said.status, "# stdin, line 1" in said.out) == (0, True)


def test_bytes_that_are_no_text_are_refused_by_their_place(tmp_path: Path) -> None:
    said = sh("$cronhare executions list --schedule $(printf '\\377\\033[2J')", tmp_path)

    assert said.status == 2
    assert said.err == r"cronhare: argument 4 is not UTF-8 text: '\udcff\x1b[2J'" + "\n"
