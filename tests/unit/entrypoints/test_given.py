"""What options and settings name, and which code is watched while it is written."""

from pathlib import Path

import pytest

from cronhare.entrypoints.given import Named, as_argument
from cronhare.entrypoints.settings.settings import Settings

BOTH = Settings(jobs=Path("a.toml"), app="shop:app")


@pytest.mark.parametrize(
    ("named", "places"),
    [
        (Named(), (Path("a.toml"), "shop:app")),
        (Named(Path("b.toml")), (Path("b.toml"),)),
        (Named(app="other:app"), ("other:app",)),
        (Named(Path("b.toml"), "other:app"), (Path("b.toml"), "other:app")),
    ],
)
def test_what_a_command_names_counts_instead_of_all_that_settings_name(
    named: Named, places: tuple[Path | str, ...]
) -> None:
    assert named.places(BOTH) == places
    assert Named().places(Settings()) == ()


def test_places_are_written_as_a_command_takes_them() -> None:
    assert as_argument(Path("my jobs.toml"), "--jobs") == "--jobs 'my jobs.toml'"
    assert as_argument("shop.jobs:app", "--jobs") == "--app shop.jobs:app"
