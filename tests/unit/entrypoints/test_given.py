"""What options and settings name, and which code is watched while it is written."""

from pathlib import Path

import pytest

from cronhare.domain.schedules.python_call import AppPlace
from cronhare.entrypoints.given import Named, as_argument
from cronhare.entrypoints.processes.reloading import code_below
from cronhare.entrypoints.settings.settings import Settings

BOTH = Settings(jobs=Path("a.toml"), app="shop:app")


@pytest.mark.parametrize(
    ("named", "places"),
    [
        (Named(), (Path("a.toml"), AppPlace("shop:app"))),
        (Named(Path("b.toml")), (Path("b.toml"),)),
        (Named(app="other:app"), (AppPlace("other:app"),)),
        (Named(Path("b.toml"), "other:app"), (Path("b.toml"), AppPlace("other:app"))),
    ],
)
def test_what_a_command_names_counts_instead_of_all_that_settings_name(
    named: Named, places: tuple[Path | AppPlace, ...]
) -> None:
    assert named.places(BOTH) == places
    assert Named().places(Settings()) == ()


def test_places_are_written_as_a_command_takes_them() -> None:
    assert as_argument(Path("my jobs.toml"), "--jobs") == "--jobs 'my jobs.toml'"
    assert as_argument(AppPlace("shop.jobs:app"), "--jobs") == "--app shop.jobs:app"


def test_the_code_that_is_watched_is_what_is_written_here(tmp_path: Path) -> None:
    for name in ("shop/jobs.py", ".git/hook.py", "venv/lib/x.py", "node_modules/y.py", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")

    assert list(code_below(tmp_path)) == ["shop/jobs.py"]
