"""Events, as `cronhare up` tells them."""

from pathlib import Path

import pytest

from tests.integration.shell import Shell
from tests.integration.test_up import Starter, start
from tests.services.finding import wait_until

__all__ = ["start"]

pytestmark = pytest.mark.integration

#: One place: what is due while the slow one has it begins late, or is skipped.
JOBS = """
[defaults]
notify = ["ops"]
retry = { attempts = 1 }

[notify.ops]
events = ["arrived", "failed", "quarantined", "recovered", "skipped", "late"]
command = ["/bin/sh", "-c", "cat > $CRON_EVENT.$CRON_EVENT_SCHEDULE.json"]

[tasks.flaky]
command = ["/bin/sh", "-c", "test -e mark || { touch mark; exit 1; }"]

[tasks.pill]
command = ["/bin/sh", "-c", "kill -9 $$"]

[tasks.slow]
command = ["sleep", "3"]

[schedules.flaky]
task = "flaky"
every = "2s"
late_after = "1s"

[schedules.pill]
task = "pill"
schedule = "0 0 1 1 *"
on_start = true

[schedules.slow]
task = "slow"
every = "1s"
overlap = "skip"
"""

TOLD = {
    "schedule.arrived.slow.json",
    "schedule.failed.flaky.json",
    "schedule.recovered.flaky.json",
    "schedule.late.flaky.json",
    "schedule.quarantined.pill.json",
    "schedule.skipped.slow.json",
}


def test_each_kind_is_told_to_a_target(start: Starter, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write(JOBS)

    up = start(tmp_path / "jobs.toml", CRON_CONCURRENCY="1", CRON_CRASH_LIMIT="1")
    for name in sorted(TOLD):
        wait_until((tmp_path / name).exists, seconds=60, what=name)

    assert up.end() == 0
    events = shell("events", "list", "--json").json()
    assert {one["event"] for one in events} >= {name.split(".")[1] for name in TOLD}
