"""What the units for systemd keep from a service, and so from its tasks."""

import re
from pathlib import PurePosixPath
from typing import Final

#: Folders that a service cannot see: the units have ProtectHome.
UNSEEN: Final = ("/home", "/root", "/run/user")

_NAMED: Final = re.compile(rf"(?<![\w./-])(?:{'|'.join(UNSEEN)})/")


def is_unseen(path: str) -> bool:
    """Tell whether a path is one that a service cannot see.

    >>> is_unseen("/root"), is_unseen("/home/ann/bin"), is_unseen("/rooted")
    (True, True, False)
    """
    return any(PurePosixPath(path).is_relative_to(folder) for folder in UNSEEN)


def names_unseen(text: str) -> bool:
    """Tell whether a command names something in such a folder.

    >>> names_unseen("cd /home/ann && ./backup"), names_unseen("/srv/home/made")
    (True, False)
    """
    return _NAMED.search(text) is not None
