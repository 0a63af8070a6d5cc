"""The whole of a cron text: five fields, or an alias for them."""

from difflib import get_close_matches
from typing import Final

from ..texts.printable import shown
from .errors import CronExpressionError, CronFault

LONGEST_TEXT: Final = 256
FIELDS: Final = 5

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FORM: Final = "minute hour day-of-month month week-day, or one of " + " ".join(ALIASES)


def split_fields(text: str) -> list[str]:
    """Split a text into its five fields, in lower case.

    >>> split_fields("  0 8 * * MON-FRI ")
    ['0', '8', '*', '*', 'mon-fri']
    >>> split_fields("@Daily")
    ['0', '0', '*', '*', '*']

    Raises:
        CronExpressionError: the text as a whole is not what we read.
    """
    if len(text) > LONGEST_TEXT:
        raise _refused(text, f"the text has {len(text)} characters, {LONGEST_TEXT} are allowed")
    spaced = text.replace("\t", " ")
    if not spaced.isascii():
        raise _refused(
            text, "only ASCII characters are allowed", "look for pasted dashes or blanks"
        )
    if not spaced.isprintable():
        raise _refused(text, "line breaks and control characters are not allowed")
    fields = spaced.lower().split()
    if not fields:
        raise _refused(text, "the text is empty", "write * * * * * for every minute")
    if fields[0].startswith("@"):
        return _alias(text, fields)
    if fields[0].startswith(("tz=", "cron_tz=")):
        raise _refused(
            text, "a zone inside the text is not supported", "set the schedule's timezone instead"
        )
    if len(fields) != FIELDS:
        raise _wrong_count(text, len(fields))
    return fields


def _alias(text: str, words: list[str]) -> list[str]:
    alias = words[0]
    if alias == "@reboot":
        raise _refused(
            text, "@reboot is not a time", "write on_boot = true in the jobs file instead"
        )
    if alias == "@every":
        raise _refused(text, "@every is no cron text", 'give the schedule every = "5m" instead')
    if alias not in ALIASES:
        close = get_close_matches(alias[:16], ALIASES, n=1)
        hint = f"did you mean {close[0]}?" if close else ""
        raise _refused(text, f'the alias "{shown(alias)}" is unknown', hint)
    if len(words) > 1:
        raise _refused(text, f"nothing may follow {alias}")
    return ALIASES[alias].split()


def _wrong_count(text: str, count: int) -> CronExpressionError:
    if count == FIELDS + 1:
        return _refused(
            text,
            "five fields expected, seconds are not supported",
            'remove the sixth field, or give the schedule every = "30s" instead',
        )
    return _refused(text, f"five fields expected, found {count}")


def _refused(text: str, reason: str, hint: str = "") -> CronExpressionError:
    return CronExpressionError(
        CronFault(field="expression", item=shown(text), reason=reason, allowed=_FORM, hint=hint)
    )
