"""Times on a page, in the zone that its reader chose: relative where they are looked at.

The page's script (`times.js`) counts the relative ones on, in the same words.
"""

from datetime import UTC, datetime, timedelta  # noqa: F401 - for the doctest
from typing import Final
from zoneinfo import ZoneInfo

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from cronhare.domain.texts import moments
from cronhare.domain.texts.moments import iso_moment

from ..reading import ZONE

_DAY: Final = 86_400
_HOUR: Final = 3_600
_MINUTE: Final = 60

#: Seconds below which a tenth of one says something.
_SHORT: Final = 10

#: What stands where there is no time; read aloud as such.
NONE: Final = Markup(
    '<span class="none"><span aria-hidden="true">—</span><span class="heard">none</span></span>'
)


def say_span(seconds: float) -> str:
    """Say a span in its two largest units, as `times.js` does.

    >>> [say_span(each) for each in (0.4, 59, 90, 3_600, 93_600, 864_000)]
    ['0 s', '59 s', '1 min 30 s', '1 h', '1 d 2 h', '10 d']
    """
    whole = int(seconds)
    for size, unit, small, smaller, most in (
        (_DAY, "d", _HOUR, "h", 7),
        (_HOUR, "h", _MINUTE, "min", 24),
        (_MINUTE, "min", 1, "s", 10),
    ):
        if whole >= size:
            many, rest = divmod(whole, size)
            less = rest // small if many < most else 0
            return f"{many} {unit} {less} {smaller}" if less else f"{many} {unit}"
    return f"{whole} s"


def say_relative(moment: datetime, now: datetime) -> str:
    """Say how far a moment is from now.

    >>> noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    >>> say_relative(noon, noon + timedelta(seconds=90)), say_relative(noon, noon)
    ('1 min 30 s ago', 'now')
    """
    away = (moment - now).total_seconds()
    if -1 < away < 1:
        return "now"
    return f"in {say_span(away)}" if away > 0 else f"{say_span(-away)} ago"


def say_lasting(seconds: float | None) -> str:
    """Say how long something took: finer than a span, as much work takes less than a second.

    >>> [say_lasting(each) for each in (0.0042, 0.25, 1.234, 75)]
    ['4 ms', '250 ms', '1.2 s', '1 min 15 s']
    """
    if seconds is None:
        return "—"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < _SHORT else say_span(seconds)


def in_zone(moment: datetime) -> datetime:
    return moments.in_zone(moment, ZONE.get() or UTC)


def say_moment(moment: datetime) -> str:
    return moments.say_moment(moment, ZONE.get() or UTC)


def _time(moment: datetime, text: str, *, title: str, kind: str = "") -> Markup:
    tag = Markup('<time datetime="{}" title="{}"{}>{}</time>')
    return tag.format(iso_moment(moment), title, Markup(kind), text)  # noqa: S704 - a word of ours


@pass_context
def ago(context: Context, moment: datetime | None) -> Markup:
    if moment is None:
        return NONE
    now: datetime = context["now"]
    title = " = ".join(dict.fromkeys((say_moment(moment), moments.say_moment(moment))))
    return _time(moment, say_relative(moment, now), title=title, kind=" data-relative")


def at(moment: datetime | None) -> Markup:
    if moment is None:
        return NONE
    return _time(moment, say_moment(moment), title=moments.say_moment(moment))


def local(moment: datetime) -> Markup:
    text = f"{moment:%a %Y-%m-%d %H:%M:%S}" if moment.second else f"{moment:%a %Y-%m-%d %H:%M}"
    offset = f"{moment:%z}"
    shown = Markup('{} <span class="offset">{}</span>')
    return _time(
        moment, shown.format(text, f"{offset[:3]}:{offset[3:5]}"), title=say_moment(moment)
    )


def clock(moment: datetime) -> Markup:
    return _time(moment, f"{in_zone(moment):%H:%M:%S}", title=moments.say_moment(moment))


def written(moment: datetime, form: str) -> str:
    return in_zone(moment).strftime(form)


FILTERS: Final = {
    "ago": ago,
    "at": at,
    "local": local,
    "clock": clock,
    "written": written,
    "in_its_zone": lambda moment, zone: moments.in_zone(moment, ZoneInfo(zone)),
    "lasting": say_lasting,
    "span": say_span,
    "iso": iso_moment,
}
