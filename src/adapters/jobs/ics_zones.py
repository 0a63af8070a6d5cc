"""The time zones that an iCalendar file brings along (RFC 5545, 3.6.5): such as zones are.

Whoever asks one for its offset has its rules stepped through from their first year on, with no
chance to interrupt that: a daily one takes minutes, an hourly one all memory.
"""

from typing import Any, Final

from cronhare.domain.texts.echo import echo

from .ics_bounds import IcsInvalid

#: Zones of a file, and the rules of all of them; the longest history of a place has some 250.
MOST_ZONES: Final = 100
MOST_RULES: Final = 1_000

#: The parts of a rule that names one day of a year, and how many values each has at most. A week
#: of days of the month stands beside a week day: the second Sunday is the one from 8 to 14.
_ONCE_A_YEAR: Final = {
    "FREQ": 1,
    "INTERVAL": 1,
    "COUNT": 1,
    "UNTIL": 1,
    "WKST": 1,
    "BYMONTH": 1,
    "BYDAY": 1,
    "BYMONTHDAY": 7,
}


def refuse_zones(calendar: Any) -> None:  # noqa: ANN401 - icalendar's
    """Refuse zones whose clocks change more often than those of places.

    Raises:
        IcsInvalid: with the zone, and what of it is refused.
    """
    zones = calendar.walk("VTIMEZONE")
    if len(zones) > MOST_ZONES:
        raise IcsInvalid(f"has {len(zones):,} time zones; {MOST_ZONES} are read")
    if sum(len(zone.subcomponents) for zone in zones) > MOST_RULES:
        raise IcsInvalid(f"has time zones of more than {MOST_RULES:,} rules")
    for zone in zones:
        for each in zone.subcomponents:
            rules = each.get("RRULE") or []
            for rule in rules if isinstance(rules, list) else [rules]:
                _refuse_rule(str(zone.get("TZID")), rule)


def _refuse_rule(zone: str, rule: Any) -> None:  # noqa: ANN401
    parts = {str(name).upper(): list(values) for name, values in rule.items()}
    fits = all(len(values) <= _ONCE_A_YEAR.get(name, 0) for name, values in parts.items())
    is_yearly = [str(each).upper() for each in parts.get("FREQ", ())] == ["YEARLY"]
    names_a_month = "BYMONTH" in parts or not {"BYDAY", "BYMONTHDAY"} & parts.keys()
    if not (fits and is_yearly and names_a_month):
        raise IcsInvalid(
            f"time zone {echo(zone)}: an RRULE of it is refused: the clocks of a zone change on "
            "one day of a year, FREQ=YEARLY with BYMONTH and BYDAY or BYMONTHDAY"
        )
