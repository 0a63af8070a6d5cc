"""What `make faults` puts into the container fits there: else a fault is noticed a night later."""

import os
from pathlib import Path

import pytest

from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from tests.faults.scheduler import POINTS, MortalBroker, MortalClaims, arm, hurry


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Container:
    """Make one that connects to nothing."""
    for name in [name for name in os.environ if name.startswith("CRON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CRON_DATABASE_URL", f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    monkeypatch.setenv("CRON_BROKER_URL", "amqp://127.0.0.1:1/")
    return Container(settings=Settings.read())


@pytest.mark.parametrize("point", POINTS)
def test_a_scheduler_that_dies_somewhere_can_be_made(container: Container, point: str) -> None:
    hurry(container)
    arm(container, point)

    container.dispatcher()
    container.reconciler()

    mortal = [isinstance(container.claims(), MortalClaims)]
    mortal.append(isinstance(container.broker(), MortalBroker))
    assert sorted(mortal) == [False, True]
