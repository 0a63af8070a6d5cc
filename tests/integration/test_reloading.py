"""A jobs file that is read again, with the ledger in the middle of it."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import JobsFile, read_jobs
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.domain.events.targets import Subscriptions
from cronhare.domain.schedules.task import Task
from cronhare.entrypoints.cli.starting import targets_for_alerts
from cronhare.entrypoints.given import Named
from cronhare.entrypoints.processes import embedded
from cronhare.entrypoints.processes.reloading import REFUSED_FOR, Reloading
from cronhare.entrypoints.processes.scheduler import StandIn
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.signals import ForcedExit
from cronhare.entrypoints.working import WorkingContainer
from cronhare.ports import LedgerUnavailable
from tests.frozen_clock import FrozenClock

JOBS = """
[tasks.{name}]
command = ["true"]

[schedules.{name}]
task = "{name}"
schedule = "0 4 * * *"
"""


class House:
    """What `up` is made of, with a jobs file that can be written anew and read again."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "jobs.toml"
        self.write("old")
        settings = Settings.read()
        jobs = read_jobs(self.file, policy=settings.policy)
        self.container = WorkingContainer(
            settings=settings, tasks=jobs.tasks, jobs_files=[jobs], queues=("cron_scheduler",)
        )
        upgrade(self.container.engine())
        embedded.apply(self.container, jobs)
        self._reloading = self._made(jobs)
        self.found_meanwhile: list[bool] = []
        self.unheard: list[str] = []

    def _made(self, jobs: JobsFile) -> Reloading:
        return Reloading(
            self.container,
            forced_exit=ForcedExit(grace=1),
            named=Named(self.file),
            last=[jobs],
            take=self._take,
        )

    def write(self, name: str) -> None:
        self.file.write_text(JOBS.format(name=name))

    def reload(self) -> None:
        asyncio.run(self._reloading.reload())

    def lack_a_task(self) -> None:
        asyncio.run(self._reloading.reload_if_changed())

    def _take(self, jobs: Sequence[JobsFile]) -> None:
        self.look()
        heard = self.unheard.pop(0) if self.unheard else "answered"
        if heard != "away":
            embedded.take(self.container, jobs)
        self.look()
        if heard != "answered":
            raise LedgerUnavailable(heard)

    def look(self) -> None:
        catalog = self.container.catalog()
        for stored in self.container.schedules().schedules():
            if (draft := stored.draft) is not None and draft.status:
                found = catalog.find(draft.task, source=stored.source, name=draft.task_name)
                self.found_meanwhile.append(isinstance(found, Task))

    @property
    def on(self) -> list[str]:
        stored = self.container.schedules().schedules()
        return [one.name for one in stored if one.draft and one.draft.status]

    @property
    def tasks(self) -> list[str]:
        return [task.name for task in self.container.catalog()]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setenv("CRON_DATABASE_URL", f"sqlite:///{tmp_path}/ledger.db")
    house = House(tmp_path)
    yield house
    house.container.engine().dispose()


@pytest.mark.parametrize("unheard", [["taken unheard"], ["away", "away", "taken unheard"]])
def test_a_reload_that_the_ledger_does_not_answer_is_repeated_until_it_does(
    house: House, caplog: pytest.LogCaptureFixture, unheard: list[str]
) -> None:
    caplog.set_level("INFO")
    house.write("new")
    house.unheard = list(unheard)

    house.reload()

    assert (house.on, house.tasks) == (["new"], ["new"])
    assert all(house.found_meanwhile)
    assert "Nothing was reloaded" not in caplog.text
    assert caplog.text.count("It is not known whether the schedules are those of") == 1
    assert "new: new; gone: old" in caplog.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (JOBS.format(name="new") + 'queue = "other"\n', "schedules.new: queue: other is new"),
        ("", "if it is meant, end this process"),
        ("# in the middle of being written\n", "if it is meant, end this process"),
    ],
    ids=["a queue of nobody", "emptied", "a comment alone"],
)
def test_a_file_that_nobody_would_serve_or_that_an_editor_has_emptied_is_refused(
    house: House, caplog: pytest.LogCaptureFixture, text: str, why: str
) -> None:
    house.file.write_text(text)

    house.reload()

    assert (house.on, house.tasks) == (["old"], ["old"])
    [refused] = [line for line in caplog.records if "Nothing was reloaded" in line.message]
    assert why in str(vars(refused))


TARGETS = """
[notify.old]
events = ["alert"]
webhook = "https://example.org/hook"
secret_env = "WANTING"

[notify.own]
events = ["alert"]
command = ["true"]
"""


class Tower:
    """What a scheduler is made of that tells of alerts."""

    def __init__(self, file: Path) -> None:
        self.file = file
        settings = Settings.read()
        last = targets_for_alerts(Named(file), settings)
        told = last[0].subscriptions if last[0] else Subscriptions()
        self.container = WorkingContainer(settings=settings, subscriptions=told)
        stand_in = StandIn(self.container)
        self._reloading = Reloading(
            self.container,
            forced_exit=ForcedExit(grace=1),
            named=Named(file),
            has_tasks=False,
            last=last,
            take=lambda read: stand_in.take([each.subscriptions for each in read]),
        )

    def reload(self, text: str) -> None:
        self.file.write_text(text)
        asyncio.run(self._reloading.reload())

    @property
    def targets(self) -> list[str]:
        return list(self.container.subscribers().current.targets)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "jobs.toml"
    found.write_text(JOBS.format(name="old") + TARGETS)
    return found


def lacking(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Name what was logged as a target that cannot be told."""
    told = [line for line in caplog.records if line.__dict__.get("action") == "notify.lacking"]
    return [line.getMessage().partition(" cannot")[0] for line in told]


def test_a_scheduler_takes_the_targets_of_its_file_and_none_of_its_tasks(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    tower = Tower(file)
    assert (tower.targets, lacking(caplog)) == (["old", "own"], ["notify.old"])

    tower.reload(file.read_text().replace("notify.old", "notify.new"))

    assert (tower.targets, lacking(caplog)) == (["new", "own"], ["notify.old", "notify.new"])
    assert not list(tower.container.catalog())
    assert f"Reloaded {file}: targets: new, own" in caplog.text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[notify.new]\nevents = 1\n", "notify.new"),
        ("", "has no target at all, and the one before had some"),
    ],
)
def test_a_scheduler_keeps_its_targets_where_its_file_is_faulty_or_emptied(
    file: Path, caplog: pytest.LogCaptureFixture, text: str, fault: str
) -> None:
    tower = Tower(file)

    tower.reload(text)

    assert tower.targets == ["old", "own"]
    [refused] = [line for line in caplog.records if "Nothing was reloaded" in line.message]
    assert fault in refused.__dict__["stack"]


@pytest.mark.parametrize("text", ["[notify", None])
def test_a_scheduler_begins_without_a_file_that_cannot_be_used(
    file: Path, caplog: pytest.LogCaptureFixture, text: str | None
) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)

    tower = Tower(file)

    assert tower.targets == []
    assert f"{file} cannot be used, so its targets are not told of alerts from here" in caplog.text


def test_a_refused_file_is_not_read_for_each_run_that_lacks_its_task_but_again_after_a_while(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FrozenClock(datetime(2026, 3, 2, tzinfo=UTC))
    house.container.clock.override(clock)
    house.file.write_text("refused")
    for _ in range(3):
        house.lack_a_task()
    refused = house.tasks

    house.write("new")
    clock.advance(timedelta(seconds=REFUSED_FOR))
    house.lack_a_task()

    assert (refused, house.tasks) == (["old"], ["new"])
    assert caplog.text.count("Nothing was reloaded") == 1
