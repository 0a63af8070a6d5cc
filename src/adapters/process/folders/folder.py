"""The folders of the attempts, with the parameters that each is given."""

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
    """A folder that only we and the task can look into."""

    path: str

    @property
    def params_file(self) -> str:
        """Where the parameters are."""
        return f"{self.path}/params.json"

    def open_params(self) -> int:
        """A descriptor to read the parameters from: the task's stdin."""
        return os.open(self.params_file, os.O_RDONLY | os.O_NOFOLLOW)

    def hand_over(self, uid: int, gid: int, *, params: int) -> None:
        """Hand it to another user, and to nobody else, with the *params* that are open.

        From then on its names are that user's to change, so we must open none of them.

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
    """Lends a folder to each attempt, and lends it again if it comes back as it went.

    Making a folder and removing it costs a disk more than all else that an attempt asks of it,
    and the event loop waits for that.

    A task, or whoever cleans the host's temporary files, may remove or change any of them while
    nobody has it, and their parent as well. So each is looked at before it is lent.
    """

    def __init__(self, parent: str, remover: Remover) -> None:
        """They are made in *parent*, and go with it."""
        self._parent = parent
        self._remover = remover
        self._spare: list[str] = []

    def acquire(self, params: object) -> Folder:
        """Give a folder with *params* in it, as JSON.

        Raises:
            OSError: there is no room, or no right; nothing is left behind.
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
        """Let other users pass to folders that are theirs. They still see no names."""
        os.chmod(self._parent, 0o711)  # noqa: PTH101, S103 - to pass is all they may

    def release(self, folder: Folder) -> None:
        """Remove all that the task may have put there, in a while if it is much. Never raises."""
        with contextlib.suppress(OSError):
            os.unlink(folder.params_file)  # noqa: PTH108 - pathlib is slower, and this is hot
        if _is_pristine(folder.path):
            self._spare.append(folder.path)
        else:
            self._remover.remove(folder.path)

    def _ensure_parent(self) -> None:
        """Make it anew if it has gone. What others put in its place is moved out of the way."""
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
    """Whether it is still ours alone, and empty."""
    try:
        status = os.lstat(path)
        if status.st_mode != _PRIVATE or status.st_uid != os.geteuid():
            return False
        with os.scandir(path) as entries:  # the first tells: there may be any number
            return next(entries, None) is None
    except OSError:
        return False
