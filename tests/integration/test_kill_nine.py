import random

import pytest

from tests.faults.kill_nine import run

pytestmark = pytest.mark.integration


def test_what_is_killed_again_and_again_loses_nothing_and_doubles_nothing() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")

    figures = run(kills=8, seed=seed)

    assert (figures.lost, figures.doubled, figures.stuck, figures.orphans) == (0, 0, 0, 0)
    assert figures.executions >= 30
    assert figures.retried > 0
