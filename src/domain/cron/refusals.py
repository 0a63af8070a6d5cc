"""Why an item cannot be read, and what its author may have meant."""

import re
from difflib import get_close_matches

from ..texts.printable import shown
from .kinds import MONTH_DAY, WEEK_DAY, FieldKind


class Refusal(Exception):
    """An item is not accepted. Never leaves this package."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def unreadable(kind: FieldKind, item: str) -> Refusal:
    """Say why an item that is neither number, range, step nor day word is refused."""
    quoted = f'"{shown(item)}"'
    for pattern, reason, hint in _KNOWN:
        if re.fullmatch(pattern, item):
            return Refusal(reason.format(quoted), hint)
    if "?" in item:
        return _question_mark(kind, quoted)
    if re.fullmatch(r"[0-9a-z]+w|l|lw|l-.*", item):
        return _month_day_word(kind, item, quoted)
    if re.fullmatch(r".*#.*|[0-9a-z]+l|l[0-7]", item):
        return _week_day_word(kind, item, quoted)
    if re.fullmatch(r"[a-z]+", item):
        return unknown_name(kind, item)
    return Refusal(f"{quoted} is not understood", "write *, a, a-b, */s, a/s or a-b/s")


def unknown_name(kind: FieldKind, name: str) -> Refusal:
    """Refuse a word where a value should stand."""
    if not kind.names:
        return Refusal(f'"{shown(name)}" is not a number')
    close = get_close_matches(name[:9], kind.names, n=1)
    hint = f"did you mean {close[0].upper()}?" if close else ""
    return Refusal(f'"{shown(name)}" is not a {kind.name}', hint)


_KNOWN = (
    (r"", "an item of the list is empty", "remove the extra comma"),
    (
        r"r(\(.*\))?(/.*)?",
        "{} (a random value) is not supported, it would differ from node to node",
        "write H, a number that is made of the schedule's name",
    ),
    (r".*~.*", "{} (a random value) is not supported", "write a number or a range, or H(a-b)"),
    (r"-\d+", "{} is negative", ""),
    (r"[^/]*/", "{} lacks the step after the slash", ""),
    (r"/.*", "{} lacks what the step applies to", "write */s"),
)


def _question_mark(kind: FieldKind, quoted: str) -> Refusal:
    if kind in {MONTH_DAY, WEEK_DAY}:
        return Refusal(f"{quoted}: ? can only stand alone", "write * if there is more in the field")
    return Refusal(f"{quoted}: ? belongs to the two day fields", "write *")


def _month_day_word(kind: FieldKind, item: str, quoted: str) -> Refusal:
    if kind is WEEK_DAY and item == "l":
        return Refusal(f"{quoted} needs a week day", "write 5L for the last Friday, 6 for Saturday")
    if kind is not MONTH_DAY:
        return Refusal(f"{quoted} belongs to the day of month")
    if item.startswith("l-"):
        return Refusal(f"{quoted} (days before the last) is not supported")
    return Refusal(f"{quoted} is not a day of month", "write 1W to 31W, or LW")


def _week_day_word(kind: FieldKind, item: str, quoted: str) -> Refusal:
    if kind is not WEEK_DAY:
        return Refusal(f"{quoted} belongs to the week day")
    if "#" in item:
        return Refusal(
            f"{quoted} is not a week day of the month", "write d#k, such as FRI#2; k is 1-5"
        )
    hint = f"write {item[1]}L" if item[0] == "l" else "write dL, such as 5L or FRIL"
    return Refusal(f"{quoted} is not a last week day", hint)
