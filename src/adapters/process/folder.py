"""The folders of the attempts, with the parameters that each is given."""

import contextlib
import os
import shutil
import stat
from pathlib import Path

import attrs
import msgspec

_PRIVATE = stat.S_IFDIR | 0o700


@attrs.frozen
class Folder:
    """A folder that only we and the task can look into: *is_ours* while both are one user."""

    path: str
    is_ours: bool = True

    @property
    def params_file(self) -> str:
        """Where the parameters are."""
        return f"{self.path}/params.json"

    def give(self, uid: int, gid: int) -> "Folder":
        """Hand it to another user, and to nobody else.

        Raises:
            OSError: we may not.
        """
        os.chown(self.params_file, uid, gid)
        os.chown(self.path, uid, gid)
        return attrs.evolve(self, is_ours=False)

    def open_params(self) -> int:
        """A descriptor to read the parameters from: the task's stdin."""
        return os.open(self.params_file, os.O_RDONLY)


class Folders:
    """Lends a folder to each attempt, and lends it again if it comes back as it went.

    Making a folder and removing it costs a disk more than all else that an attempt asks of it,
    and the event loop waits for that.
    """

    def __init__(self, parent: str) -> None:
        """They are made in *parent*, and go with it."""
        self._parent = parent
        self._made = 0
        self._spare: list[str] = []

    def lend(self, params: object) -> Folder:
        """Give a folder with *params* in it, as JSON.

        Raises:
            OSError: there is no room, or no right; nothing is left behind.
        """
        folder = Folder(self._spare.pop() if self._spare else self._make())
        try:
            fd = os.open(folder.params_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(fd, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                file.write(msgspec.json.encode(params) + b"\n")
        except OSError:
            self.take_back(folder)
            raise
        return folder

    def open_the_way(self) -> None:
        """Let other users pass to folders that are theirs. They still see no names."""
        os.chmod(self._parent, 0o711)  # noqa: PTH101, S103 - to pass is all they may

    def take_back(self, folder: Folder) -> None:
        """Remove all that the task may have put there. Never raises."""
        with contextlib.suppress(OSError):
            os.unlink(folder.params_file)  # noqa: PTH108 - pathlib is slower, and this is hot
        if folder.is_ours and _is_as_made(folder.path):
            self._spare.append(folder.path)
        else:
            shutil.rmtree(Path(folder.path), ignore_errors=True)

    def _make(self) -> str:
        self._made += 1
        path = f"{self._parent}/{self._made}"
        os.mkdir(path, 0o700)  # noqa: PTH102 - as above
        return path


def _is_as_made(path: str) -> bool:
    try:
        return os.lstat(path).st_mode == _PRIVATE and not os.listdir(path)  # noqa: PTH208 - as above
    except OSError:
        return False
