"""Folders are lent again only as they were made."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhare.adapters.process.folders.folder import Folder, FolderPool
from cronhare.adapters.process.folders.remover import Remover


def test_a_folder_that_comes_back_as_it_went_is_lent_again(tmp_path: Path) -> None:
    folders = FolderPool(str(tmp_path), Remover())
    first = folders.acquire({"run": 1})
    beside = folders.acquire({})
    folders.release(first)

    again = folders.acquire({"run": 2})

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
    folders = FolderPool(str(tmp_path), remover)
    changed = folders.acquire({})
    change(changed)
    folders.release(changed)
    await remover.idle(60)

    assert folders.acquire({}).path != changed.path
    assert changed.path not in map(str, tmp_path.iterdir())  # noqa: ASYNC240 - a test may wait


def put_a_file_in_its_place(folder: Folder) -> None:
    Path(folder.path).rmdir()
    Path(folder.path).touch()


def remove_the_parent(folder: Folder) -> None:
    shutil.rmtree(Path(folder.path).parent)


@pytest.mark.parametrize(
    "change",
    [
        leave_a_file,
        put_a_file_in_its_place,
        remove_the_parent,
    ],
)
def test_a_spare_folder_that_was_changed_is_no_reason_to_lend_none(
    tmp_path: Path, change: Callable[[Folder], None]
) -> None:
    parent = tmp_path / "host" / "ours"
    parent.mkdir(0o700, parents=True)
    folders = FolderPool(str(parent), Remover())
    spare = folders.acquire({})
    folders.release(spare)
    change(spare)

    lent = folders.acquire({"run": 2})

    assert Path(lent.params_file).read_text() == '{"run":2}\n'
    assert Path(lent.path).stat().st_mode & 0o777 == parent.stat().st_mode & 0o777 == 0o700
    assert not parent.is_symlink()


def test_params_are_not_opened_through_a_link(tmp_path: Path) -> None:
    folder = FolderPool(str(tmp_path), Remover()).acquire({})
    Path(folder.params_file).unlink()
    Path(folder.params_file).symlink_to("/etc/passwd")

    with pytest.raises(OSError, match="params"):
        folder.open_params()
