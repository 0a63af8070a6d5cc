"""The commands, as a person or a pipe calls them."""

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import pytest
from sqlalchemy import URL

from tests.integration.shell import PROGRAM, Shell, clean_environment

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


def test_without_arguments_it_helps(empty: Shell) -> None:
    said = empty()

    assert "cronhare up --jobs jobs.toml" in said.out + said.err
    assert "explain" in said.out + said.err


def test_commands_that_change_a_ledger_name_it(empty: Shell) -> None:
    empty.write(JOBS)
    place = f"sqlite:///cronhare.sqlite3 ({empty.folder}/cronhare.sqlite3)"

    made, again = empty("db", "upgrade").out, empty("db", "upgrade").out
    planned, applied = (empty(command, "jobs.toml").out for command in ("plan", "apply"))
    run = empty("run", "nightly").out

    assert made.startswith(f"Made {place}: a new ledger")
    assert again == f"{place} is up to date.\n"
    assert planned.endswith(f"Ledger: {place}\n")
    assert f"Applied to {place}: 2 added" in applied
    assert run.endswith(f"Ledger: {place}\n")


def test_a_ledger_on_a_server_is_named_without_its_user_and_password(
    empty: Shell, empty_mysql: URL
) -> None:
    url = empty_mysql.render_as_string(hide_password=False)

    said = empty("db", "upgrade", CRON_DATABASE_URL=url)

    place = f"//{empty_mysql.host}:{empty_mysql.port}/{empty_mysql.database} to 0040"
    assert said.out.startswith("Upgraded mysql")
    assert place in said.out
    assert str(empty_mysql.password) not in said.out
    assert "Made" not in said.out


def test_a_ledger_is_copied_while_somebody_writes_and_nothing_is_written_over(shell: Shell) -> None:
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as writer:
        writer.execute("UPDATE Scheduler SET status = 0")  # and does not commit
        said = shell("db", "backup", "copy.sqlite3")
    again = shell("db", "backup", "copy.sqlite3")

    assert (said.status, again.status) == (0, 2)
    assert "copy.sqlite3: File exists" in again.err
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


def test_a_backup_of_a_ledger_that_is_no_file_or_not_sound_leaves_none(empty: Shell) -> None:
    (empty.folder / "bad.sqlite3").write_bytes(b"SQLite format 3\0 and so on")
    servers = {
        url: empty("db", "backup", "copy", CRON_DATABASE_URL=f"{url}://u:secret@db/cron")
        for url in ("mysql", "postgresql")
    }

    broken = empty("db", "backup", "copy", CRON_DATABASE_URL="sqlite:///bad.sqlite3")

    assert {servers["mysql"].status, servers["postgresql"].status} == {2}
    assert "mariadb-dump --single-transaction cron" in servers["mysql"].err
    assert "pg_dump cron" in servers["postgresql"].err
    assert (broken.status, empty("db", "backup", "copy").status) == (3, 2)
    assert not (empty.folder / "copy").exists()


def test_next_shows_the_instants_around_a_change_of_the_clock(empty: Shell) -> None:
    said = empty(
        *("next", "30 2 * * *", "--timezone", "Europe/Berlin"),
        *("--from", "2026-03-28T00:00:00Z", "--count", "3", "--json"),
    )

    assert [each["utc"] for each in said.json()] == [
        "2026-03-28T01:30:00Z",
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:30:00Z",
    ]


def test_every_fault_of_an_expression_is_told_at_once(empty: Shell) -> None:
    said = empty("next", "61 2 * * MOO")

    assert said.status == 2
    assert "minute: 61 is outside 0-59" in said.err
    assert "week day" in said.err


def test_every_fault_of_a_jobs_file_is_told_at_once_and_nothing_is_applied(shell: Shell) -> None:
    shell.write(
        JOBS
        + """
[schedules.broken]
task = "repport"
schedule = "61 2 30 2 *"
timezone = "Europe/Berlyn"
retry = { attempts = 21, backoff = { delay = 5 } }

[schedules.never]
task = "report"
schedule = "0 0 30 2 *"
"""
    )

    said = shell("apply", "jobs.toml")

    assert said.status == 2
    assert "jobs.toml" in said.err
    for fault in (
        "schedules.broken: task:",
        "schedules.broken: schedule: minute: 61 is outside 0-59",
        "schedules.broken: timezone:",
        "SCHEDULE_RETRY_POLICY_INVALID: attempts: 21 is not a whole number, 1-20",
        "SCHEDULE_RETRY_POLICY_INVALID: backoff.delay: 5 is not a whole number of milliseconds, ",
        "schedules.never: schedule: never fires",
        "Nothing was applied. Fix the file, then run: cronhare check jobs.toml",
    ):
        assert fault in said.err
    assert "broken" not in shell("schedules").out


def test_check_tells_the_faults_of_every_file_and_what_the_sound_ones_share(empty: Shell) -> None:
    task = '[tasks.{}]\ncommand = ["true"]\n[schedules.nightly]\ntask = "{}"\nschedule = "{}"\n'
    empty.write(task.format("a", "a", "61 2 * * *"), "a.toml")
    empty.write(task.format("b", "b", "30 2 * * *"), "b.toml")
    empty.write(task.format("c", "d", "30 25 * * *"), "c.toml")
    empty.write(task.format("d", "d", "30 2 * * *"), "d.toml")

    said = empty("check", "a.toml", "b.toml", "c.toml", "d.toml", "missing.toml")

    assert (said.status, said.out) == (2, "")
    for fault in (
        "a.toml: one fault",
        "minute: 61",
        "c.toml: 2 faults in 1 place",
        "hour: 25",
        "missing.toml: No such file",
        "another jobs file has the same names",
        "nightly",
        "Fix the file, then run: cronhare check c.toml",
    ):
        assert fault in said.err


def test_a_failure_is_shown_in_the_names_of_the_original(shell: Shell) -> None:
    error = {"message": "no answer", "stack": "Error: no answer\n    at x.js:45:15"}
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as ledger, ledger:
        ledger.execute(
            "INSERT INTO FailedTask (id, execution_id, scheduler_id, schedule_name, execution_key, "
            "kind, task_type, task_id, task_name, queue, params, failed_at, failed_reason, error, "
            "attempts, retry_count, options) VALUES (7, 42, 1, 'nightly', 'key', 'failed', "
            "'report', 1, 'report', 'cron_scheduler', '{}', '2026-03-02 12:00:00.000000', "
            "'no answer', ?, 4, 3, '{\"attempts\": 4}')",
            [json.dumps(error)],
        )

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


def add_failures(shell: Shell, failures: Iterable[tuple[datetime, str]]) -> None:
    """Write failures, of no execution, with the times and reasons."""
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as ledger, ledger:
        ledger.executemany(
            "INSERT INTO FailedTask (execution_id, scheduler_id, schedule_name, execution_key, "
            "kind, task_type, task_id, queue, params, failed_at, failed_reason, attempts, "
            "retry_count) VALUES (0, 1, 'nightly', 'key', 'failed', 'report', 1, "
            "'cron_scheduler', '{}', ?, ?, 4, 3)",
            [(f"{at:%Y-%m-%d %H:%M:%S.%f}", reason) for at, reason in failures],
        )


def test_the_weekly_report_is_of_7_days_and_has_100_lines(shell: Shell) -> None:
    now = datetime.now(UTC)
    within, before = now - timedelta(days=6, hours=23), now - timedelta(days=7, hours=1)
    add_failures(shell, [(within, f"reason {n}") for n in range(101)] + [(before, "older")] * 2)

    report = shell("failed", "stats", "--by", "reason", "--json").json()
    more = shell("failed", "stats", "--by", "reason", "--json", "--limit", "200", "--since", "8d")

    assert (len(report), len(more.json())) == (100, 102)
    assert (more.json()[0]["failed_reason"], more.json()[0]["failed_count"]) == ("older", 2)
    assert "older" not in {line["failed_reason"] for line in report}


def test_a_replay_by_a_filter_answers_how_many_it_is_of(shell: Shell) -> None:
    now = datetime.now(UTC)
    add_failures(shell, [(now, "no answer")] * 3 + [(now, "other")])
    asked = ("failed", "replay", "--reason", "no answer")

    before = shell(*asked, "--dry-run", "--json").json()
    ordered = shell(*asked)

    assert before == {"failures": 3}
    assert "Replay 1: 3 failures, at most 10 a second, in the background." in ordered.out


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["people", "machines"])
def test_failures_are_watched_as_they_come(shell: Shell, options: tuple[str, ...]) -> None:
    now = datetime.now(UTC)
    add_failures(shell, [(now - timedelta(hours=2), "older"), (now, "no answer")])
    asked = ("failed", "list", "--schedule", "nightly", "--since", "1h", "--watch", *options)
    with subprocess.Popen(
        [PROGRAM, *asked],
        cwd=shell.folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        add_failures(shell, [(now, "gone")])
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
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as ledger, ledger:
        ledger.executemany(
            "INSERT INTO FailedTask (id, execution_id, scheduler_id, schedule_name, execution_key, "
            "kind, task_type, task_id, queue, params, failed_at, failed_reason, attempts, "
            "retry_count) VALUES (?, 0, 1, 'nightly', 'key', 'failed', 'report', 1, "
            "'cron_scheduler', '{}', ?, ?, 4, ?)",
            [
                (1, "2026-03-02 12:00:00.000000", "no\x1b[31m\nanswer", 3),
                (2, "2026-03-02 13:00:00.000000", "no\x1b[31m\nanswer", 2),
            ],
        )
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
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as ledger, ledger:
        ledger.executemany(
            "INSERT INTO FailedTask (id, execution_id, scheduler_id, schedule_name, execution_key, "
            "kind, task_type, task_id, queue, params, failed_at, failed_reason, attempts, "
            "retry_count, resolution, task_name) VALUES (?, 0, 1, 'nightly', 'key', 'failed', "
            "'report', 1, 'mails', '{}', '2026-03-02 12:00:00.000000', 'no', 4, 3, ?, 'send')",
            [(1, None), (2, "replayed")],
        )
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
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as ledger, ledger:
        ledger.executemany(
            "INSERT INTO FailedTask (id, execution_id, scheduler_id, schedule_name, execution_key, "
            "kind, task_type, task_id, queue, params, failed_at, failed_reason, attempts, "
            "retry_count, crash_count, first_crash_at) VALUES (?, 0, 1, ?, 'key', ?, 'report', 1, "
            "'cron_scheduler', '{}', '2026-03-02 12:00:00.000000', 'no', 1, 1, 3, "
            "'2026-03-02 11:58:00.000000')",
            [(7, "pill", "quarantined"), (8, "other", "failed"), (9, "spoilt", "quarantined")],
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


def test_each_step_names_the_next_one(empty: Shell) -> None:
    empty.write(JOBS)
    assert empty("db", "upgrade").status == 0

    checked = empty("check", "jobs.toml")
    planned = empty("plan", "jobs.toml")
    applied = empty("apply", "jobs.toml")
    listed = empty("schedules")
    again = empty("apply", "jobs.toml")

    assert "What it would change: cronhare plan jobs.toml" in checked.out
    assert "To make it so: cronhare apply jobs.toml" in planned.out
    assert "A scheduler at work sees it within 5 s; then: cronhare schedules" in applied.out
    assert "No scheduler has looked at by-hand, nightly yet" in listed.out
    assert "A scheduler at work" not in again.out


def test_check_notes_topics_and_queues_of_which_nothing_it_knows_has_any(empty: Shell) -> None:
    task = '[tasks.{0}]\ncommand = ["true"]\ntopics = ["{1}"]\n'
    table = '[schedules.{0}]\nschedule = "@daily"\ntopic = "orders.piad"\nqueue = "mial"\n'
    empty.write(task.format("pay", "orders.paid") + table.format("pay"))
    (empty.folder / "piad.toml").write_text(task.format("piad", "orders.piad"))

    alone, beside = empty("check", "jobs.toml"), empty("check", "jobs.toml", "piad.toml")
    served = empty("check", "jobs.toml", CRON_QUEUES="mail:3,other")
    taken = empty("check", "jobs.toml", CRON_QUEUES="mial")

    topic = "schedules.pay: topic: no task of this jobs file listens to 'orders.piad', another "
    queue = "schedules.pay: queue: no worker with this CRON_QUEUES serves 'mial', its runs wait for"
    assert [topic in each.out for each in (alone, beside, served)] == [True, False, True]
    assert "did you mean orders.paid?" in alone.out
    assert [queue in each.out for each in (alone, served, taken)] == [False, True, False]
    assert "did you mean mail?" in served.out
    assert [each.status for each in (alone, beside, served, taken)] == [0, 0, 0, 0]


def test_applying_twice_changes_nothing_the_second_time(shell: Shell) -> None:
    said = shell("apply", "jobs.toml", "--json")

    assert {change["change"] for change in said.json()} == {"keep"}


@pytest.mark.parametrize("command", ["check", "plan", "apply"])
def test_without_an_argument_the_jobs_file_of_the_settings_is_used(
    shell: Shell, command: str
) -> None:
    unnamed = shell(command)
    (shell.folder / "cronhare.toml").write_text('jobs = "jobs.toml"\n')

    assert unnamed.status == 2
    assert f"Name it: cronhare {command} jobs.toml, or CRON_JOBS." in unnamed.err
    assert shell(command).status == 0


def test_plan_shows_what_apply_would_do(shell: Shell) -> None:
    shell.write(JOBS.replace("30 2", "45 2").partition("[schedules.by-hand]")[0])

    said = shell("plan", "jobs.toml")

    assert "~ nightly" in said.out
    assert "schedule: 30 2 * * * → 45 2 * * *" in said.out
    assert "- by-hand" in said.out
    assert shell("schedules").out.count("30 2 * * *") == 1


def test_a_schedule_is_deleted_with_its_history_once_no_file_names_it(shell: Shell) -> None:
    begun = shell("run", "by-hand", "--json").json()["id"]
    unseen = shell("schedules", "delete", "by-hand")
    named = shell("schedules", "delete", "by-hand", "--jobs", "jobs.toml")
    shell.write(JOBS.partition("[schedules.by-hand]")[0])
    waits = shell("schedules", "delete", "by-hand", "--jobs", "jobs.toml", "--with-history")
    cancelled = shell("executions", "cancel", "--schedule", "by-hand")
    none_left = shell("executions", "cancel", "--schedule", "by-hand")
    unsaid = shell("executions", "cancel")
    kept = shell("schedules", "delete", "by-hand", CRON_JOBS="jobs.toml")

    gone = shell("schedules", "delete", "by-hand", "--with-history", CRON_JOBS="jobs.toml")

    assert {unseen.status, named.status, waits.status, kept.status} == {2}
    assert "show the file to `cronhare schedules delete by-hand --jobs FILE`" in unseen.err
    assert "take it out there first" in named.err
    assert "1 execution that may still run: `cronhare schedules disable by-hand`" in waits.err
    assert (cancelled.out, none_left.out) == (
        f"Execution {begun} is cancelled.\n",
        "All executions of by-hand have ended.\n",
    )
    assert (unsaid.status, "say which" in unsaid.err) == (2, True)
    assert "--with-history" in kept.err
    assert (gone.status, gone.out[:15]) == (0, "Deleted by-hand")
    assert shell("schedules", "show", "by-hand").status == 2
    newest = shell("audit", "list", "--json").json()[0]
    assert (newest["action"], newest["target"]) == ("schedule.delete", "by-hand")


def test_a_change_is_typed_as_the_schedule_is(shell: Shell) -> None:
    other = 'timeout = "90s"\nmisfire = { policy = "once", window = "1h" }'
    shell.write(JOBS.replace('timezone = "Europe/Berlin"', other))

    said = shell("plan", "jobs.toml", "--json")

    [nightly] = [change for change in said.json() if change["name"] == "nightly"]
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


def test_executions_are_listed_by_task_and_time(shell: Shell) -> None:
    shell("run", "nightly")
    asked = ("executions", "list", "--json", "--task")

    ours, by_number = (shell(*asked, task).json() for task in ("report", "worker 1"))
    earlier = shell(*asked, "report", "--until", "1h").json()
    wrong = shell("executions", "list", "--until", "soon")
    ahead = shell("failed", "list", "--since", "2100-01-01")
    none = shell("failed", "list", "--since", "2025-01-01T22:00", "--task", "report").out

    assert [one["id"] for one in ours] == [one["id"] for one in by_number] == [1]
    assert earlier == []
    assert (wrong.status, '--until: "soon" is no time' in wrong.err) == (2, True)
    assert (ahead.status, "--since: 2100-01-01 00:00Z is still to come" in ahead.err) == (2, True)
    assert none == "None since 2025-01-01 22:00Z.\n"


def test_a_task_is_known_by_the_jobs_file_that_the_settings_name(shell: Shell) -> None:
    asked = ("executions", "list", "--task", "lonely")
    shell.write(f'{JOBS}[tasks.lonely]\nid = 77\ncommand = ["true"]\n')
    (shell.folder / "broken.toml").write_text("[tasks")

    unknown = shell(*asked)
    known = shell(*asked, CRON_JOBS="jobs.toml")
    unread = [shell(*asked, CRON_JOBS=name) for name in ("broken.toml", "away.toml")]

    assert (known.status, known.out) == (0, "No executions.\n")
    assert [said.status for said in (unknown, *unread)] == [2, 2, 2]
    assert all("there is no task 'lonely'" in said.err for said in unread)


def test_a_run_by_hand_waits_in_the_ledger_and_can_be_cancelled(shell: Shell) -> None:
    began = shell("run", "by-hand", "--params", '{"who": "you"}', "--json").json()

    shown = shell("executions", "show", str(began["id"]), "--json").json()["execution"]
    told = shell("executions", "show", str(began["id"]))
    cancelled = shell("executions", "cancel", str(began["id"]))

    assert (shown["state"], shown["params"]) == ("claimed", {"who": "you"})
    assert "next attempt" not in told.out, "it is due, and was given a time of yesterday"
    assert cancelled.status == 0
    assert shell("executions", "list", "--state", "cancelled", "--json").json()[0]["id"] == 1


def test_who_waits_for_a_run_that_nobody_takes_up_is_told(shell: Shell) -> None:
    with subprocess.Popen(
        [PROGRAM, "run", "nightly", "--wait"],
        cwd=shell.folder,
        env=clean_environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        process.kill()

    assert "is claimed: nobody has taken it up yet" in said
    assert "`cronhare doctor`" in said


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["people", "machines"])
def test_who_waits_for_a_run_knows_its_number_before_he_gives_up(
    shell: Shell, options: tuple[str, ...]
) -> None:
    with subprocess.Popen(
        ["env", "--default-signal=INT", PROGRAM, "run", "nightly", "--wait", *options],
        cwd=shell.folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told, other = (process.stderr, "out") if options else (process.stdout, "err")
        line = told.readline()
        process.send_signal(signal.SIGINT)
        rest = dict(zip(("out", "err"), process.communicate(timeout=HANGS), strict=True))

    assert line.startswith("Execution 1 (manual-")
    assert "Follow it: cronhare executions show 1. Ctrl-C ends the wait, and not the run" in line
    assert (process.returncode, rest[other]) == (130, "")
    assert shell("executions", "show", "1", "--json").json()["execution"]["state"] == "claimed"


def test_explain_says_when_an_instant_was_not_due(shell: Shell) -> None:
    said = shell("explain", "nightly", "--at", "2026-03-29T08:00:00Z", "--json").json()

    assert not said["ran"]
    assert said["answer"] == "It was not due then"


def test_explain_takes_the_number_of_an_execution(shell: Shell) -> None:
    began = shell("run", "by-hand", "--json").json()

    said, as_json = shell("explain", str(began["id"])), shell("explain", "1", "--json").json()

    assert said.status == 0
    assert "It was claimed, and the broker has not taken it yet" in said.out
    assert "It waits for a scheduler that hands it to the broker, for queue" in said.out
    assert (as_json["schedule_name"], as_json["execution"]["id"]) == ("by-hand", 1)


def test_explain_without_a_time_is_of_the_last_due_instant(empty: Shell) -> None:
    empty.write(JOBS.replace("30 2 * * *", "30 2 1 1 *"))  # it must not be due meanwhile
    empty("db", "upgrade")
    empty("apply", "jobs.toml")

    said = empty("explain", "nightly", "--json").json()

    assert said["instant"].endswith("-01-01T01:30:00Z"), "02:30 in Berlin"
    assert "from before an edit is not run by itself" in said["answer"]


def test_queues_are_listed_with_what_waits_in_them(shell: Shell) -> None:
    shell("run", "by-hand")

    listed, [queue] = shell("queues"), shell("queues", "--json").json()

    assert listed.out.split()[:3] == ["QUEUE", "SCHEDULES", "WAITING"]
    assert (queue["queue"], queue["waiting"], queue["consumers"]) == ("cron_scheduler", 1, None)


def test_a_schedule_is_shown_switched_and_run(shell: Shell) -> None:
    shown, off = shell("schedules", "show", "nightly"), shell("schedules", "disable", "nightly")
    again, on = shell("schedules", "disable", "nightly"), shell("schedules", "enable", "nightly")
    ran = shell("schedules", "run", "nightly", "--json").json()

    assert "30 2 * * *" in shown.out
    assert "report of jobs.toml (worker 1)" in shown.out
    assert shown.out.count(" 02:30 CE") == 5
    assert off.out.startswith("nightly is off.\njobs.toml has the last word on nightly: its next")
    assert "nightly is off already." in again.out
    assert "status = true there" in on.out
    listed = shell("executions", "list", "--since", "1h", "--json").json()
    assert [one["id"] for one in listed] == [ran["id"]]
    assert shell("executions", "list", "--since", "2h1s1").status == 2
    upcoming = shell("schedules", "show", "nightly", "--count", "2", "--json").json()["upcoming"]
    assert [one["runs"] for one in upcoming] == [True, True]


def test_schedules_are_paused_for_a_while_and_resumed_all_or_none(shell: Shell) -> None:
    both = ("nightly", "by-hand")

    wrong = shell("schedules", "pause", "nightly", "by-hnd", "--until", "2h")
    over = shell("schedules", "pause", *both, "--until", "2020-01-01")
    before = [
        shell("schedules", "show", name, "--json").json()["schedule"]["pause"] for name in both
    ]
    paused = shell("schedules", "pause", *both, "--until", "2h", "--by", "ann", "--json").json()
    again = shell("schedules", "pause", "nightly", "--by", "bob").out
    resumed = shell("schedules", "resume", *both)
    unpaused = shell("schedules", "resume", "nightly").out

    assert (wrong.status, "did you mean by-hand" in wrong.err) == (2, True)
    assert (over.status, "is over" in over.err) == (2, True)
    assert before == [None, None]
    for pause in (paused[name] for name in both):
        since, until = (datetime.fromisoformat(pause[edge]) for edge in ("since", "until"))
        assert timedelta(0) <= timedelta(hours=2) - (until - since) < timedelta(seconds=10)
    assert "by ann.\n" in again
    assert "cronhare schedules resume nightly" in again
    assert [line.split()[:3] for line in resumed.out.splitlines()] == [
        [name, "goes", "on."] for name in both
    ]
    assert unpaused == "nightly was not paused.\n"


def test_what_is_exported_is_no_difference_to_the_plan(shell: Shell) -> None:
    printed = shell("schedules", "export")
    told = shell("schedules", "export", "--output", "copy.toml", "--json").json()

    assert printed.out == told["text"] == (shell.folder / "copy.toml").read_text()
    assert (told["source"], told["differs"], told["left_out"]) == ("jobs.toml", {}, {})
    assert "0 added, 0 changed, 0 disabled, 2 as they were" in shell("plan", "copy.toml").out
    assert shell("schedules", "export", "-o", "copy.toml").status == 2
    part = shell("schedules", "export", "nightly")
    assert "Applied, it disables by-hand" in part.err
    assert shell("schedules", "export", "--by-hand", "--source", "x").status == 2


def test_calendars_are_checked_exported_and_not_removed_in_silence(shell: Shell) -> None:
    task = '[tasks.pay]\ncommand = ["true"]\n'
    named = '[schedules.pay]\ntask = "pay"\nschedule = "@daily"\nskip_on = ["de-holidays"]\n'
    calendar = '[calendars.de-holidays]\ndays = { 12-25 = "Christmas" }\n'
    typo = named.replace("de-holidays", "de-holiday")
    file, shared = shell.folder / "pay.toml", shell.folder / "shared.toml"

    shared.write_text(task.replace("pay", "other") + calendar)
    file.write_text(task + typo)
    checked, beside = shell("check", "pay.toml"), shell("check", "pay.toml", "shared.toml")
    applied = shell("apply", "shared.toml")
    planned, refused = shell("plan", "pay.toml"), shell("apply", "pay.toml")

    assert checked.status == 0
    assert "schedules.pay: skip_on: there is no calendar de-holiday; there are none" in checked.out
    assert "did you mean de-holidays?" in beside.out
    assert "as they were; 1 calendar added" in applied.out
    assert (planned.status, refused.status) == (2, 2)
    assert "did you mean de-holidays?" in planned.err

    file.write_text(task + named)
    assert shell("apply", "pay.toml").status == 0
    shared.write_text(task.replace("pay", "other"))
    gone = shell("apply", "shared.toml")
    assert gone.status == 2
    assert "would be removed, and is named by pay of pay.toml" in gone.err
    file.write_text(task)
    assert shell("apply", "pay.toml").status == 0
    assert "; 1 calendar removed" in shell("plan", "shared.toml").out

    file.write_text(task + named + calendar)
    shell("apply", "shared.toml")
    shell("apply", "pay.toml")
    told = shell("schedules", "export", "--source", "pay.toml", "-o", "copy.toml", "--json").json()
    assert (told["calendars"], told["differs"]) == (["de-holidays"], {})
    assert "1 calendar" not in shell("plan", "copy.toml").out


def test_a_backfill_is_looked_at_ordered_shown_and_stopped(shell: Shell) -> None:
    looked = shell(*BACKFILL, *YEAR, "--dry-run")
    previewed = shell(*BACKFILL, *YEAR, "--dry-run", "--json").json()
    ordered = shell(*BACKFILL, *YEAR, "--rate", "2", "--at-once", "3", "--by", "ann")
    [listed] = shell("replays", "list", "--json").json()
    shown = shell("replays", "show", "1").out
    stopped = shell("replays", "stop", "1", "--json").json()

    assert looked.out == "365 instants of nightly; nothing was changed.\n"
    assert (previewed["instants"], previewed["ran"]) == (365, 0)
    assert previewed["since"] == "2024-12-31T23:00:00Z", "midnight in its own zone"
    assert "Backfill 1: 365 instants of nightly." in ordered.out
    assert "at most 2 a second, 3 at a time" in ordered.out
    assert (listed["kind"], listed["state"]) == ("backfill", "active")
    assert listed["which"] == {
        "schedule": "nightly",
        "since": "2024-12-31T23:00:00Z",
        "until": "2025-12-31T23:00:00Z",
    }
    assert "backfill" in shell("replays", "list").out
    assert all(word in shown for word in ("backfill", "ann", "3 with the same schedule"))
    assert stopped["state"] == "stopped"


def test_a_broken_row_cannot_be_run_and_says_why(shell: Shell) -> None:
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as ledger, ledger:
        ledger.execute("UPDATE Scheduler SET timezone = 'Mars/Base' WHERE name = 'nightly'")

    said = shell("run", "nightly")
    [listed] = [line for line in shell("schedules").out.splitlines() if "broken:" in line]

    assert said.status == 2
    assert "'nightly' cannot be run, its row is broken: timezone: unknown zone" in said.err
    assert "Traceback" not in said.err
    assert listed.split("broken:")[0].split() == ["nightly", *["30", "2", "*", "*", "*"], *"-----"]


BACKFILL = ("schedules", "backfill", "nightly", "--since")
YEAR = ("2025-01-01", "--until", "2026-01-01")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("run", "nightli"), "did you mean nightly?"),
        (("run", "nightly", "--params", "{no"), "--params is not JSON"),
        (("executions", "list", "--schedule", "nightli"), "did you mean nightly?"),
        (("executions", "show", "99"), "there is no execution 99"),
        (("executions", "cancel", "99"), "there is no execution 99"),
        (("failed", "show", "7"), "the archive has no row 7"),
        (("failed", "replay"), "say which"),
        (("failed", "replay", "--queue", "cron_sheduler"), "did you mean cron_scheduler?"),
        (("failed", "replay", "--schedule", "nightli"), "did you mean nightly?"),
        (("quarantine", "discard", "--schedule", "nightli"), "did you mean nightly?"),
        (("failed", "replay", "--all", "--rate", "0"), "--rate: 0 is not 0.01-1,000"),
        (("failed", "replay", "--all", "--stop-at", "2x"), "--stop-at: '2x' is neither"),
        (("failed", "replay", "7", "--rate", "5"), "--rate: numbers begin at once"),
        (("replays", "stop", "7"), "there is no replay 7"),
        ((*BACKFILL, "never", "--until", "2026-01-01"), '"never" is no time'),
        ((*BACKFILL, *YEAR, "--rate", "nan", "--at-once", "0"), "--rate: nan is not 0.01-1,000"),
        (("run", "nightly", "--params", f'"{"x" * 102_400}"'), "102402 bytes of JSON"),
        (("explain", "nightly", "--at", "eight"), '"eight" is no time'),
        (
            ("executions", "list", "--state", "runing"),
            "'--state': 'runing' is not one of 'claimed'",
        ),
        (("service", "install", "wroker"), "'wroker' is not one of 'up', 'scheduler', 'worker'"),
        (("next", "* * * * *", "--timezone", "Mars/Base"), "Mars/Base"),
        (("apply", "missing.toml"), "missing.toml: No such file"),
        (("check", "."), "Is a directory"),
    ],
)
def test_wrong_input_is_a_sentence_and_status_2(
    shell: Shell, arguments: tuple[str, ...], reason: str
) -> None:
    said = shell(*arguments)

    assert said.status == 2
    assert reason in said.err
    assert "Traceback" not in said.err
    assert "Value error" not in said.err


def test_an_import_says_which_kind_was_guessed_and_what_speaks_against_it(empty: Shell) -> None:
    empty.write("0 5 * * * root ls\n0 6 * * * sorry-no-account ls\n", "crontab")

    said = empty("import", "crontab", "crontab")

    assert (
        "crontab: taken for a crontab without a user column (otherwise: --kind system)" in said.err
    )
    assert "lines begin with accounts of this host: root. Is it a system's?" in said.err
    assert "taken for" not in empty("import", "crontab", "crontab", "--kind", "system").err


def test_a_crontab_can_come_through_a_pipe(shell: Shell) -> None:
    told = subprocess.run(
        [PROGRAM, "import", "crontab", "-"],
        cwd=shell.folder,
        input="0 5 * * * make-report\nnonsense\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert told.returncode == 0, told.stderr
    assert "make-report" in told.stdout
    assert "# stdin, line 1" in told.stdout
    assert "stdin:2: left out" in told.stderr


def test_a_ledger_that_was_never_made_says_how_to_make_it(empty: Shell) -> None:
    said = empty("executions", "list")

    assert said.status == 3
    assert "cronhare db upgrade" in said.err
    assert "Traceback" not in said.err


def test_all_settings_at_fault_are_told_at_once(empty: Shell) -> None:
    said = empty("up", CRON_MAX_RETRIES="many", CRON_LOG_LEVEL="loud")

    assert said.status == 2
    assert "CRON_MAX_RETRIES" in said.err
    assert "CRON_LOG_LEVEL" in said.err


def test_a_crontab_becomes_a_jobs_file_that_can_be_checked(empty: Shell) -> None:
    empty.write(
        "PATH=/usr/bin\n17 * * * * root run-parts /etc/cron.hourly\n@every x y\n", "crontab"
    )

    said = empty(
        *("import", "crontab", "crontab", "--kind", "system"),
        *("--run-as", "root", "--timezone", "Europe/Berlin", "-o", "jobs.toml"),
    )

    assert said.status == 0
    assert "crontab:3: left out" in said.err
    assert empty("check", "jobs.toml").status == 0
    assert empty("import", "crontab", "crontab", "-o", "jobs.toml").status == 2


def test_a_crontab_that_is_missing_does_not_keep_the_others_from_being_read(empty: Shell) -> None:
    empty.write("5 4 * * * /bin/true\n", "crontab")

    said = empty("import", "crontab", "crontab", "missing", "--kind", "user")

    assert said.status == 2
    assert "[schedules.true]" in said.out
    assert "1 job carried over" in said.err
    assert "1 crontab could not be read; the others were\n  missing: No such file" in said.err


@pytest.mark.parametrize(
    "command",
    ["up", "executions list", "doctor"],
)
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


@pytest.mark.parametrize("process", ["scheduler", "worker"])
def test_a_process_that_no_other_could_ever_reach_is_not_started(
    empty: Shell, process: str
) -> None:
    said = empty(process)

    assert said.status == 2
    assert "CRON_BROKER_URL: memory:// is a broker inside of one process" in said.err


def test_up_with_a_broker_in_memory_is_refused_on_a_ledger_that_others_may_share(
    applied: Path,
) -> None:
    server = "mysql+pymysql://u:secret@127.0.0.1:1/cronhare"

    said = Shell(applied)("up", "--jobs", "jobs.toml", CRON_DATABASE_URL=server)

    assert said.status == 2
    assert "CRON_BROKER_URL: memory:// is a broker inside of this process" in said.err
    assert "CRON_DATABASE_URL=sqlite:///" in said.err
    assert "secret" not in said.err


@pytest.mark.parametrize(
    ("command", "culprit"),
    [
        ("worker --queues mails,cron_scheduler_failed", "cronhare: --queues: "),
        ("worker", "  CRON_QUEUES (it is 'cron_scheduler_failed'): "),
        ("up --jobs jobs.toml", "  schedules.nightly: queue: "),
    ],
)
def test_who_names_one_of_the_systems_own_queues_is_told(
    empty: Shell, command: str, culprit: str
) -> None:
    jobs = JOBS.replace('30 2 * * *"', '30 2 * * *"\nqueue = "cron_scheduler_failed"')
    (empty.folder / "jobs.toml").write_text(jobs)
    queues = {} if "--" in command else {"CRON_QUEUES": "cron_scheduler_failed"}

    said = empty(*command.split(), CRON_BROKER_URL="amqp://localhost/nobody", **queues)

    assert said.status == 2
    assert f"{culprit}cron_scheduler_failed is one of the system's own queues" in said.err


@pytest.mark.parametrize("command", ["worker --queues", "up --jobs jobs.toml"])
def test_a_process_serves_no_more_queues_than_there_may_be(empty: Shell, command: str) -> None:
    tables = (
        f'[schedules.q{number}]\ntask = "report"\nschedule = "@daily"\nqueue = "q{number}"\n'
        for number in range(300)
    )
    (empty.folder / "jobs.toml").write_text(f"{TASK}{''.join(tables)}")
    names = [] if "jobs" in command else [",".join(f"q{number}" for number in range(301))]

    said = empty(*command.split(), *names, CRON_BROKER_URL="amqp://localhost/nobody")

    assert said.status == 2
    assert "names 301 queues, more than 256" in said.err
    assert "Nothing was started" in said.err


@pytest.mark.parametrize("queues", ["theirs,ours", "ours, theirs", "theirs,theirs"])
def test_a_worker_does_not_consume_where_another_program_does(empty: Shell, queues: str) -> None:
    said = empty(
        "worker",
        "--queues",
        queues,
        CRON_BROKER_URL="amqp://localhost/nobody",
        CRON_FOREIGN_QUEUES="theirs",
    )

    assert said.status == 2
    assert "theirs: another program serves it, by CRON_FOREIGN_QUEUES" in said.err


@pytest.mark.parametrize("command", ["up", "worker"])
def test_who_would_fail_all_that_waits_for_want_of_tasks_is_not_started(
    applied: Path, command: str
) -> None:
    said = Shell(applied)(command, CRON_BROKER_URL="amqp://localhost/nobody")

    assert said.status == 2
    assert "no jobs file is named" in said.err
    assert "Nothing was started. Name it: --jobs jobs.toml, or CRON_JOBS." in said.err


@pytest.mark.parametrize("command", ["up", "worker"])
def test_nothing_is_started_with_a_file_that_an_editor_has_only_emptied(
    empty: Shell, command: str
) -> None:
    empty.write("# in the middle of being written\n")

    said = empty(command, "--jobs", "jobs.toml", CRON_BROKER_URL="amqp://localhost/nobody")
    checked = empty("check", "jobs.toml")

    assert said.status == 2
    assert "jobs.toml has no task at all" in said.err
    assert "cronhare apply jobs.toml" in said.err
    assert (checked.status, "no worker starts with it" in checked.out) == (0, True)


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
    with subprocess.Popen(
        ["env", "--default-signal=INT", PROGRAM, "next", "* * * * *", "--count", "10000"],
        cwd=empty.folder,
        stdout=subprocess.PIPE,  # nobody reads so much from it before the signal: it cannot end
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANGS)

    assert (process.returncode, said) == (130, "")
