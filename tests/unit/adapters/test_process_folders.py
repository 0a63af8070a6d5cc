"""Folders are lent again only as they were made."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cronhare.adapters.process.folder import Folder, Folders
from cronhare.adapters.process.remover import Remover


def test_a_folder_that_comes_back_as_it_went_is_lent_again(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path), Remover())
    first = folders.lend({"run": 1})
    beside = folders.lend({})
    folders.take_back(first)

    again = folders.lend({"run": 2})

    assert again.path == first.path != beside.path
    assert Path(again.params_file).read_text() == '{"run":2}\n'


def leave_a_file(folder: Folder) -> None:
    (Path(folder.path) / "left").touch()


def open_it_to_all(folder: Folder) -> None:
    Path(folder.path).chmod(0o777)


def remove_it(folder: Folder) -> None:
    Path(folder.params_file).unlink()
    Path(folder.path).rmdir()


def put_a_link_in_its_place(folder: Folder) -> None:
    remove_it(folder)
    Path(folder.path).symlink_to("/")


@pytest.mark.parametrize(
    "change", [leave_a_file, open_it_to_all, remove_it, put_a_link_in_its_place]
)
async def test_a_folder_that_a_task_has_changed_is_lent_no_more(
    tmp_path: Path, change: Callable[[Folder], None]
) -> None:
    remover = Remover()
    folders = Folders(str(tmp_path), remover)
    changed = folders.lend({})
    change(changed)
    folders.take_back(changed)
    await remover.idle(60)

    assert folders.lend({}).path != changed.path
    assert changed.path not in map(str, tmp_path.iterdir())  # noqa: ASYNC240 - a test may wait


def test_params_that_cannot_be_written_leave_nothing_behind(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path / "gone"), Remover())

    with pytest.raises(OSError, match="gone"):
        folders.lend({})


def test_params_are_not_opened_through_a_link(tmp_path: Path) -> None:
    folder = Folders(str(tmp_path), Remover()).lend({})
    Path(folder.params_file).unlink()
    Path(folder.params_file).symlink_to("/etc/passwd")

    with pytest.raises(OSError, match="params"):
        folder.open_params()
