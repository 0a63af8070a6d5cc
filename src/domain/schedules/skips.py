"""Why a due instant does not run: a pause, conditions, or that nothing is due any more."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby, islice
from operator import itemgetter
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from ..texts.moments import say_moment
from ..texts.printable import printable, shortened
from ..texts.words import counted
from .conditions import BrokenCalendar, FoundCalendar, expired, missing
from .schedule import Every, Schedule


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive due instants that do not run. *key* is the first one's.

    *prolongs* is the key of a row with the same reason that ends where these begin.
    """

    first: datetime
    last: datetime
    count: int
    key: str
    reason: str
    prolongs: str | None = None


def skip_of(schedule: Schedule, instants: Sequence[datetime], reason: str) -> Skip:
    return Skip(
        first=instants[0],
        last=instants[-1],
        count=len(instants),
        key=schedule.timing.key(instants[0]),
        reason=reason,
    )


class SkipKind(enum.StrEnum):
    """Why an instant did not run, in one word: few, so that they can be counted."""

    BLACKOUT = "blackout"
    CALENDAR = "calendar"
    EDITED = "edited"
    EXPIRED = "expired"
    IDLE = "idle"
    MAX_RUNS = "max_runs"
    MISSED = "missed"
    OVERLAP = "overlap"
    PAUSED = "paused"
    OTHER = "other"


#: How reasons begin, and what would change each for the schedule {name}, from the next instant on.
_REMEDIES: Final = {
    "paused": "`cronhare schedules resume {name}` ends the pause, if it still lasts.",
    "calendar": "Its skip_on names that calendar: without the day there, or the name, it runs.",
    "in no window": "Its only_on lets it run in those calendars' windows alone.",
    "blackout": "Its blackout has that window: without it, it runs.",
    "expired": "A longer expires lets it begin later; `cronhare queues` has how much waits.",
    "max_runs": "A larger max_runs lets it go on.",
    "missed, and the misfire policy is skip": 'misfire = "once" or "all" catches up.',
    "missed, and caught up": 'misfire = "all" runs each of them.',
    "missed, and more": "A larger misfire.cap catches up more at once.",
    "missed, and older": "A longer misfire.window catches up from further back.",
    "missed: more than": "Run a scheduler without such gaps; so many are not looked at one by one.",
    "missed: at least": 'A smaller gap is counted in full; misfire = "all" runs some of them.',
    "overlap": 'overlap = "allow" lets runs begin beside one that has not ended.',
    "the schedule was edited": "Edits hold from their moment on: none before it runs by itself.",
    "disabled": "It is on again since that edit, or off for another reason.",
    "ended": "A later ends_at, or none, lets it go on.",
    "broken": "The row is mended by now: `cronhare check` tells such faults before they are saved.",
    "the schedule is disabled": "`cronhare schedules enable {name}` switches it on.",
    "the schedule ended": "A later ends_at, or none, lets it go on.",
    "the schedule starts": "An earlier starts_at, or none, lets it begin sooner.",
    "it cannot be planned": "Mend what it says; `cronhare doctor` lists all such schedules.",
}
#: How the reasons of each kind begin: most with its name.
_KINDS: Final = {kind.value: kind for kind in SkipKind} | {
    "in no window": SkipKind.CALENDAR,
    "the schedule was edited": SkipKind.EDITED,
    **dict.fromkeys(("disabled", "ended", "broken"), SkipKind.IDLE),
}


def skip_kind(reason: str) -> SkipKind:
    found = (kind for begins, kind in _KINDS.items() if reason.startswith(begins))
    return next(found, SkipKind.OTHER)


def remedies(reason: str, name: str) -> Iterator[str]:
    found = (each for begins, each in _REMEDIES.items() if reason.startswith(begins))
    yield from (each.format(name=name) for each in islice(found, 1))


#: The most characters of a reason, and of an author.
LONGEST_REASON: Final = 1_000
LONGEST_AUTHOR: Final = 255


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time in which a schedule's due instants do not run.

    From *since*, inclusive, to *until*, exclusive; without *until* it lasts until a resume. It is
    no edit: the plan goes on, and each instant that does not run is recorded with the reason.
    A pause that is over stays known, until the next one replaces it: what was due in it, and has
    not been looked at yet, did not run because of it.
    """

    since: datetime
    until: datetime | None = None
    by: str | None = None
    reason: str | None = None

    def is_on(self, now: datetime) -> bool:
        return self.since <= now and (self.until is None or now < self.until)

    def covers(self, instant: datetime, *, now: datetime) -> bool:
        """Whether an instant that is looked at *now* does not run because of it.

        While it lasts that is each instant, those as well that were due before it and that nobody
        had claimed: who pauses a schedule expects that nothing of it begins.
        """
        if self.until is not None and instant >= self.until:
            return False
        return instant >= self.since or self.is_on(now)

    def __str__(self) -> str:
        by = f" by {self.by}" if self.by else ""
        until = f" until {say_moment(self.until)}" if self.until else ""
        why = f": {self.reason}" if self.reason else ""
        return f"paused{by} since {say_moment(self.since)}{until}{why}"


def paused_anew(pause: Pause, before: Pause | None, *, now: datetime) -> Pause:
    """Give the pause that is kept when a schedule is paused; one that is on goes on since then."""
    if before is not None and before.is_on(now):
        return msgspec.structs.replace(pause, since=before.since)
    return pause


#: Who pauses a schedule that fails again and again, and what its reason has of the last error.
BY_ITSELF: Final = "cronhare"
_LONGEST_ERROR: Final = 300


def paused_by_failures(
    failed: Sequence[bool], most: int, *, error: str, now: datetime
) -> Pause | None:
    """Pause a schedule whose last *most* runs have failed, until somebody resumes it.

    *failed* says of each run that ended since the last pause, the newest first, whether it did:
    one that was replayed counts by how it ended then, and where it ended last.
    """
    if len(failed) < most or not all(failed[:most]):
        return None
    return Pause(since=now, by=BY_ITSELF, reason=say_failures(most, error))


def say_failures(count: int, error: str) -> str:
    said = shortened(printable(error), _LONGEST_ERROR)
    return f"{counted(count, 'failure')} in a row, the last one: {said}"


def resumed(pause: Pause, *, now: datetime) -> Pause:
    return msgspec.structs.replace(pause, until=now) if pause.is_on(now) else pause


#: The most due instants of a schedule with conditions that one look judges: an interval of seconds
#: has millions after a while. Older ones are missed.
MOST_JUDGED: Final = 10_000

_UTC: Final = ZoneInfo("UTC")


class NewestSkip(msgspec.Struct, frozen=True, kw_only=True):
    """The newest row of instants that did not run: the next one of that reason prolongs it."""

    key: str
    last: datetime
    reason: str


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a ledger knows beside a schedule's row, read where a schedule has conditions or a pause.

    *claimed* counts the runs that were due so far; *problem* says what of it cannot be read.
    """

    pause: Pause | None = None
    calendars: Mapping[str, FoundCalendar] = {}
    claimed: int = 0
    newest_skip: NewestSkip | None = None
    problem: str | None = None

    def problem_with(self, schedule: Schedule) -> str | None:
        if self.problem is not None or schedule.conditions is None:
            return self.problem
        broken = [
            str(found)
            for name in schedule.conditions.calendars
            if isinstance(found := self.calendars.get(name) or missing(name), BrokenCalendar)
        ]
        return "; ".join(broken) or None

    def runs_left(self, schedule: Schedule) -> int | None:
        """Say how many runs it may still have; None for any number."""
        conditions = schedule.conditions
        if conditions is None or conditions.max_runs is None:
            return None
        return max(conditions.max_runs - self.claimed, 0)

    def why_not(self, schedule: Schedule, instant: datetime, now: datetime) -> str | None:
        """Say why an instant that is looked at *now* does not run; None if it may."""
        if self.pause is not None and self.pause.covers(instant, now=now):
            return str(self.pause)
        if schedule.conditions is None:
            return None
        if (why := self.why_not_that_day(schedule, instant)) is not None:
            return why
        longest = schedule.conditions.expires
        return None if longest is None or now - instant <= longest else expired(longest)

    def why_skipped(self, schedule: Schedule, instant: datetime, now: datetime) -> str | None:
        """Say why an instant does not run, if only because the schedule is not planned any more."""
        if self.runs_left(schedule) == 0:
            return f"max_runs: it had its {counted(self.claimed, 'run')}"
        if (problem := self.problem_with(schedule)) is not None:
            return f"it cannot be planned: {problem}"
        return self.why_not(schedule, instant, now)

    def why_not_that_day(self, schedule: Schedule, instant: datetime) -> str | None:
        if (conditions := schedule.conditions) is None:
            return None
        for name in conditions.skip_on:
            if (at := self.calendars[name].window_at(instant)) is not None:
                return f"calendar {name}: {at}"
        only = [self.calendars[name].window_at(instant) for name in conditions.only_on]
        if only and not any(only):
            return f"in no window of calendar {' or '.join(conditions.only_on)}"
        zone = getattr(schedule.timing, "zone", _UTC)
        if (window := conditions.blacked_out_by(instant, zone)) is not None:
            return f"blackout: {window.text}"
        return None


def counts_runs(schedule: Schedule) -> bool:
    return schedule.conditions is not None and schedule.conditions.max_runs is not None


def sort_out(
    schedule: Schedule, due: Sequence[datetime], circumstances: Circumstances, now: datetime
) -> tuple[Sequence[datetime], Sequence[Skip]]:
    """Part the due instants that may run from those that do not, in stretches with a reason."""
    older, recent = due[:-MOST_JUDGED], due[-MOST_JUDGED:]
    judged = [(instant, circumstances.why_not(schedule, instant, now)) for instant in recent]
    allowed = [instant for instant, reason in judged if reason is None]
    refused = [
        skip_of(schedule, [instant for instant, _ in group], reason)
        for reason, group in groupby(judged, key=itemgetter(1))
        if reason is not None
    ]
    if not older:
        return allowed, refused
    pause, ends = circumstances.pause, (older[0], older[-1])
    if pause is not None and all(pause.covers(end, now=now) for end in ends):
        return allowed, [skip_of(schedule, older, str(pause)), *refused]
    why = f"missed: more than the {MOST_JUDGED:,} instants that are looked at one by one"
    return allowed, [skip_of(schedule, older, why), *refused]


#: So many instants of a stretch that is over are counted. 10,000 schedules that are enabled
#: together, each with as many, take six seconds.
MOST_COUNTED: Final = 100

_MOMENT: Final = timedelta(microseconds=1)
_LONGEST_PROBLEM: Final = 300


class Why(enum.StrEnum):
    """Why no instant of a schedule is to come."""

    DISABLED = "disabled"
    ENDED = "ended"
    MAX_RUNS = "max_runs"
    BROKEN = "broken"


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is due any more, until an edit. *since* is the first instant that does not run.

    While it is so no row is written; the edit that ends it leaves one for all of them.
    """

    why: Why
    since: datetime


def idle_from(
    schedule: Schedule, after: datetime, before: Idle | None, *, runs_left: int | None = None
) -> Idle | None:
    """Say why a schedule not due after *after* is idle; it may have been so *before*."""
    if (why := _why(schedule, runs_left)) is None:
        return None
    if before is not None and before.why is why:
        return before
    if schedule.starts_at is not None and schedule.starts_at > after:
        after = schedule.starts_at - _MOMENT
    if why is Why.ENDED and schedule.ends_at is not None:
        after = max(after, schedule.ends_at)
    since = schedule.timing.next(after)
    return None if since is None else Idle(why=why, since=since)


def idle_when_broken(due: datetime | None, before: Idle | None) -> Idle | None:
    """Say since when a schedule that an edit has broken does not run: from what was *due* next."""
    if before is not None and before.why is Why.BROKEN:
        return before
    since = due if before is None else before.since
    return None if since is None else Idle(why=Why.BROKEN, since=since)


def say_idle(why: Why, *, until: datetime, problem: str | None) -> str:
    match why:
        case Why.DISABLED:
            what = "it was off"
        case Why.ENDED:
            what = "its ends_at had passed"
        case Why.MAX_RUNS:
            what = "the runs that it is allowed were over"
        case Why.BROKEN:
            what = shortened(problem or "its row could not be understood", _LONGEST_PROBLEM)
    return f"{why}: {what}, until an edit at {say_moment(until)}"


def skip_between(schedule: Schedule, first: datetime, until: datetime, reason: str) -> Skip:
    """Skip what did not run from *first*, which was due by a row that is gone, to *until*.

    Of very many instants only so many are counted; the last is known all the same.
    """
    timing = schedule.timing
    if isinstance(timing, Every):
        later = timing.between(first + _MOMENT, until)
        last, count = (later[-1] if later else first), 1 + len(later)
    else:
        last, count, instant = first, 1, timing.next(first)
        while instant is not None and instant <= until:
            if count == MOST_COUNTED:
                last = timing.previous(until + _MOMENT) or last
                break
            last, count = instant, count + 1
            instant = timing.next(instant)
    key = timing.key(first)
    return Skip(first=first, last=last, count=count, key=key, reason=reason)


def _why(schedule: Schedule, runs_left: int | None) -> Why | None:
    if not schedule.enabled:
        return Why.DISABLED
    if runs_left == 0:
        return Why.MAX_RUNS
    return None if schedule.ends_at is None else Why.ENDED
