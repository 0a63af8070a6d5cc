"""The folders of attempts, with their parameters."""

import contextlib
import os
import stat
import tempfile

import attrs
import msgspec

from .remover import Remover

_PRIVATE = stat.S_IFDIR | 0o700


@attrs.frozen
class Folder:
    """A folder that only we and the task can read."""

    path: str

    @property
    def params_file(self) -> str:
        """The path of the parameters."""
        return f"{self.path}/params.json"

    def open_params(self) -> int:
        """Open the parameters, as the task's stdin."""
        return os.open(self.params_file, os.O_RDONLY | os.O_NOFOLLOW)

    def hand_over(self, uid: int, gid: int, *, params: int) -> None:
        """Give it to another user alone, with the *params* that are open.

        From then on that user may replace what is in it, so we must open nothing by name.

        Raises:
            OSError: we may not.
        """
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchown(params, uid, gid)
            os.fchown(folder, uid, gid)
        finally:
            os.close(folder)


class FolderPool:
    """Gives a folder to each attempt, and reuses one that is released empty.

    To make and remove a folder is most of an attempt's disk work, and the event loop waits for it.

    A task, or a cleaner of temporary files, may remove or change spare folders, and their parent
    as well. So each is checked before it is used.
    """

    def __init__(self, parent: str, remover: Remover) -> None:
        """Make them in *parent*."""
        self._parent = parent
        self._remover = remover
        self._spare: list[str] = []

    def acquire(self, params: object) -> Folder:
        """Return a folder with *params* in it, as JSON.

        Raises:
            OSError: no space, or no permission; nothing is left behind.
        """
        self._ensure_parent()
        folder = Folder(self._take_spare() or tempfile.mkdtemp(prefix="", dir=self._parent))
        try:
            fd = os.open(folder.params_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(fd, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                file.write(msgspec.json.encode(params) + b"\n")
        except OSError:
            self.release(folder)
            raise
        return folder

    def let_others_pass(self) -> None:
        """Let other users pass through the parent to their folders, but not list it."""
        os.chmod(self._parent, 0o711)  # noqa: PTH101, S103 - to pass is all they may

    def release(self, folder: Folder) -> None:
        """Take a folder back. What a task left in it is removed in a thread. Never raises."""
        with contextlib.suppress(OSError):
            os.unlink(folder.params_file)  # noqa: PTH108 - pathlib is slower, and this is hot
        if _is_pristine(folder.path):
            self._spare.append(folder.path)
        else:
            self._remover.remove(folder.path)

    def _ensure_parent(self) -> None:
        """Make the parent again if it is gone. What others put in its place is removed."""
        try:
            status = os.lstat(self._parent)
        except FileNotFoundError:
            pass
        else:
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                return
            strange = f"{self._parent}.{os.urandom(8).hex()}"
            os.rename(self._parent, strange)  # noqa: PTH104 - they are names here, not paths
            self._remover.remove(strange)
        os.makedirs(self._parent, 0o700)  # noqa: PTH103 - as above

    def _take_spare(self) -> str | None:
        while self._spare:
            path = self._spare.pop()
            if _is_pristine(path):
                return path
            self._remover.remove(path)
        return None


def _is_pristine(path: str) -> bool:
    """Whether a folder is still ours alone, and empty."""
    try:
        status = os.lstat(path)
        if status.st_mode != _PRIVATE or status.st_uid != os.geteuid():
            return False
        with os.scandir(path) as entries:  # only the first: there may be any number
            return next(entries, None) is None
    except OSError:
        return False
