"""What `make faults` puts into the container fits there: else a fault is noticed a night later."""

import os
from pathlib import Path

import pytest

from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer
from tests.faults.scheduler import POINTS, MortalBroker, MortalClaims, arm, hurry


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> WorkingContainer:
    """Make one that connects to nothing."""
    for name in [name for name in os.environ if name.startswith("CRON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CRON_DATABASE_URL", f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    monkeypatch.setenv("CRON_BROKER_URL", "amqp://127.0.0.1:1/")
    return WorkingContainer(settings=Settings.read())


@pytest.mark.parametrize("point", POINTS)
def test_a_scheduler_that_dies_somewhere_can_be_made(
    container: WorkingContainer, point: str
) -> None:
    hurry(container)
    arm(container, point)

    container.dispatcher()
    container.reconciler()

    mortal = [isinstance(container.claims(), MortalClaims)]
    mortal.append(isinstance(container.broker(), MortalBroker))
    assert sorted(mortal) == [False, True]
