"""What other processes of our user may see of this one."""

import ctypes

_PR_SET_DUMPABLE = 4


def be_private() -> None:
    """Let no process of our user read our memory, our environment or our descriptors.

    Tasks run as that user, unless they name another, and we hold the passwords of broker and
    database. Root may look all the same. Nor does a core file hold them.
    """
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
