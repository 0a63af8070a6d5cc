"""What an examination finds, each finding with its cure."""

import enum
from collections.abc import Sequence

import attrs

from cronhare.domain.texts.listing import listed


class Severity(enum.StrEnum):
    """How much a finding matters, from nothing on."""

    OK = "ok"
    NOTE = "note"  # worth knowing; nothing is to be done
    WARNING = "warning"  # it works, but not as well as it should, or not for long
    ERROR = "error"  # it must be mended


@attrs.frozen
class Finding:
    """One thing that was looked at.

    *what* is a sentence without a full stop. *cure* says what to do, and is empty if nothing is.
    """

    severity: Severity
    subject: str
    what: str
    cure: str = ""


#: So many names are listed; the rest is counted.
NAMES_TOLD = 5


def named(names: Sequence[str]) -> str:
    """List names, and count those beyond the first few."""
    return listed(names, most=NAMES_TOLD)
