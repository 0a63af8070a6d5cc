"""Removes a folder with whatever a task has made in it: deep, wide, or hostile.

At any depth, nothing recurses and few descriptors are open: an inner folder is moved to the top
and emptied there. A link is unlinked and never followed. A mount cannot be moved, so it is not
entered. The warden runs this file by path, with a folder as argument: it imports nothing of
cronhare.
"""

import errno
import os
import sys
import time
from collections.abc import Callable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# Seconds between passes: another process may remove the same and move folders meanwhile.
_PAUSES = (0.0, 0.0, 0.1, 0.5, 2.0, 5.0)


def remove(path: str) -> OSError | None:
    """Remove the folder *path*, or what is there instead; return the first error, if any is left.

    Other processes may remove the same at the same time.
    """
    try:
        top = os.open(path, _FOLDER)
    except OSError as error:
        return error if _attempt(os.unlink, path) else None
    try:
        for pause in _PAUSES:
            left = _Emptying(top).run()
            reason = _attempt(os.rmdir, path)
            if reason is None:
                return None
            if left is not None and left.errno != errno.ENOTEMPTY:
                break
            time.sleep(pause)
    finally:
        os.close(top)
    return left or reason


class _Emptying:
    """Empties the folder that is open as *top*."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._prefix = os.urandom(8).hex()  # a name that no task has chosen
        self._moved = 0
        self._left: OSError | None = None

    def run(self) -> OSError | None:
        self._clear(self._top)
        emptied = 0
        while emptied < self._moved:  # which grows meanwhile
            self._empty(self._name(emptied))
            emptied += 1
        return self._left

    def _empty(self, name: str) -> None:
        try:
            folder = os.open(name, _FOLDER, dir_fd=self._top)
        except OSError as error:
            self._note(error)
        else:
            self._clear(folder)
            os.close(folder)
        self._note(_attempt(os.rmdir, name, dir_fd=self._top))

    def _clear(self, folder: int) -> None:
        """Unlink the files of *folder*, move its folders to the top."""
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(self._prefix):  # moved a moment ago
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        self._move_up(folder, entry.name)
                    else:
                        self._note(_attempt(os.unlink, entry.name, dir_fd=folder))
        except OSError as error:
            self._note(error)

    def _move_up(self, folder: int, name: str) -> None:
        to = self._name(self._moved)
        error = _attempt(os.rename, name, to, src_dir_fd=folder, dst_dir_fd=self._top)
        if error is None:
            self._moved += 1
        self._note(error)

    def _name(self, number: int) -> str:
        return f"{self._prefix}-{number}"

    def _note(self, error: OSError | None) -> None:
        if not isinstance(error, FileNotFoundError):
            self._left = self._left or error


def _attempt(step: Callable[..., None], *names: str, **where: int) -> OSError | None:
    """Call *step*; return its error, unless the file is gone."""
    try:
        step(*names, **where)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    return None


if __name__ == "__main__":
    remove(sys.argv[1])
