"""Faults, each once; `make faults` injects all of them again and again."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cronhare.domain.retries.limits import OnExhausted
from tests.faults import kill_nine
from tests.faults.house import House, Servers, house
from tests.faults.limits.judging import tell
from tests.faults.limits.scene import measure
from tests.faults.scenarios import SCENARIOS, SHORT
from tests.services import mariadb as mariadb_service
from tests.services import rabbitmq as rabbitmq_service
from tests.services.finding import missing

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def servers(mariadb: mariadb_service.Server, rabbitmq: rabbitmq_service.Server) -> Servers:
    if not rabbitmq.is_ours:
        missing("RabbitMQ that may be stopped", rabbitmq_service.HURT)
    if not mariadb.is_ours:
        missing("a database that may be stopped", mariadb_service.HURT)
    return Servers(mariadb, rabbitmq)


class Street:
    """One house for all scenarios, to save their starts; another one once a promise is broken."""

    def __init__(self, folder: Path, servers: Servers) -> None:
        self._folder = folder
        self._servers = servers
        self._stack = ExitStack()
        self._house: House | None = None

    def house(self) -> House:
        """Give the house with everybody at work in it."""
        if self._house is None:
            seed = random.randrange(2**32)
            print(f"seed {seed}")
            folder = self._folder / str(seed)
            folder.mkdir()
            self._house = self._stack.enter_context(house(folder, self._servers, seed))
        self._house.fill_up()
        return self._house

    def leave(self) -> None:
        self._house = None
        self._stack.close()

    def close(self) -> None:
        with self._stack:
            if self._house is not None:
                self._house.stop()


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Iterator[Street]:
    street = Street(tmp_path_factory.mktemp("faults"), servers)
    yield street
    street.close()


@pytest.mark.parametrize("name", SHORT)
def test_whatever_happens_nothing_is_lost_doubled_stuck_or_left_over(
    street: Street, name: str
) -> None:
    home = street.house()
    try:
        SCENARIOS[name](home)
        figures = home.judge(cycles=1, settled_at=home.settle())
        assert figures.broken == 0, f"{figures}; the logs are in {home.arena.logs}"
    except BaseException:
        street.leave()
        raise


def test_what_is_killed_again_and_again_loses_nothing_and_doubles_nothing() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")

    figures = kill_nine.run(kills=8, seed=seed)

    assert (figures.lost, figures.doubled, figures.stuck, figures.orphans) == (0, 0, 0, 0)
    assert figures.executions >= 30
    assert figures.retried > 0


@pytest.mark.long
def test_no_kill_has_a_limit_exceeded_or_a_run_lost_doubled_or_stuck(
    rabbitmq: rabbitmq_service.Server, mariadb: mariadb_service.Server, tmp_path: Path
) -> None:
    figures = measure(
        tmp_path,
        rabbitmq,
        mariadb,
        seed=random.randrange(2**32),
        seconds=6,
        kills_every=(1.5, 2.5),
        on_exhausted=OnExhausted.FAIL,
    )

    print(tell(figures))
    assert figures.broken == 0, tell(figures)
    assert figures.kills > 1
    assert figures.let_go > 0
    assert min(figures.openings, figures.stopped, figures.unbudgeted) > 0, tell(figures)
    assert {"one", "two", "five", "skip", "queue-one"} <= figures.at_once.keys()
