"""Folders are lent again only as they were made."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cronhare.adapters.process.folder import Folder, Folders


def test_a_folder_that_comes_back_as_it_went_is_lent_again(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path))
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
def test_a_folder_that_a_task_has_changed_is_lent_no_more(
    tmp_path: Path, change: Callable[[Folder], None]
) -> None:
    folders = Folders(str(tmp_path))
    changed = folders.lend({})
    change(changed)
    folders.take_back(changed)

    assert folders.lend({}).path != changed.path
    assert not Path(changed.path).is_dir() or Path(changed.path).is_symlink()


def test_params_that_cannot_be_written_leave_nothing_behind(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path / "gone"))

    with pytest.raises(OSError, match="gone"):
        folders.lend({})
