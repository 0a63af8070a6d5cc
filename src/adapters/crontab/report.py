"""The report of an import: what has become of each active line, and why."""

import enum

import attrs


class Verdict(enum.Enum):
    """What has become of a line."""

    CARRIED = "carried"
    CHANGED = "changed"  # carried, but it will not behave as it did
    LEFT_OUT = "left out"


@attrs.frozen(kw_only=True)
class Finding:
    """One line of a crontab and its verdict.

    *job* is the name that an entry was given; None for settings and for what was left out.
    *reasons* are sentences without a full stop, empty for a line that is simply carried.
    """

    file: str
    line: int
    text: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    job: str | None = None


@attrs.frozen(kw_only=True)
class Imported:
    """A jobs file, and how it came about.

    *findings* holds one for every line that is neither blank nor a comment, in order; *notes*
    are sentences that hold for the whole of it.
    """

    text: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
