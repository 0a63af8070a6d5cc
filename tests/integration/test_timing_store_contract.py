"""What every ledger promises to tell of when schedules are due."""

from datetime import timedelta

from cronhare.domain.schedules.schedule import Every, Once, Recurring
from cronhare.ports.schedules import SameTiming
from tests.integration.ledgers import MINUTE, NOON, Ledger, draft


def counted(ledger: Ledger) -> dict[str, int]:
    found = ledger.timings.timings()
    assert found.broken == 0
    return {each.text: each.number for each in found.groups}


def group(ledger: Ledger) -> SameTiming:
    [found] = ledger.timings.timings().groups
    return found


def test_schedules_of_one_text_and_zone_are_counted_together(ledger: Ledger) -> None:
    ledger.save(
        draft("a", schedule="0 8 * * *"),
        draft("b", schedule="0 8 * * *", params='{"a": 1}'),
        draft("c", schedule="0 8 * * *", timezone="Asia/Tokyo"),
        draft("d", schedule="0 8 * * THU"),
    )

    assert counted(ledger) == {
        "0 8 * * * UTC": 2,
        "0 8 * * * Asia/Tokyo": 1,
        "0 8 * * THU UTC": 1,
    }


def test_only_enabled_schedules_are_counted_that_time_makes_due(ledger: Ledger) -> None:
    ledger.save(draft("a"), draft("off"), draft("by-hand", schedule=None))
    ledger.disable("off")

    assert counted(ledger) == {"* * * * * UTC": 1}


def test_a_text_with_an_h_is_read_with_each_name(ledger: Ledger) -> None:
    ledger.save(*(draft(name, schedule="H 3 * * *") for name in ("nightly", "weekly", "hourly")))

    found = ledger.timings.timings().groups

    texts = [each.timing.expression.text for each in found if isinstance(each.timing, Recurring)]
    assert len(set(texts)) == len(texts) == 3
    assert not any("H" in text for text in texts)
    assert {each.text for each in found} == {"H 3 * * * UTC"}


def test_intervals_and_single_times_are_told_as_such(ledger: Ledger) -> None:
    ledger.save(
        draft("every", schedule=None, every=timedelta(seconds=90)),
        draft("once", schedule=None, date_time=NOON + MINUTE),
    )

    found = {each.timing for each in ledger.timings.timings().groups}

    assert found == {Every(timedelta(seconds=90)), Once(NOON + MINUTE)}


def test_jitter_and_bounds_are_told(ledger: Ledger) -> None:
    jitter = timedelta(minutes=5)
    ledger.save(draft("a", jitter=jitter, starts_at=NOON, ends_at=NOON + MINUTE))

    found = group(ledger)

    assert (found.jitter, found.starts_at, found.ends_at) == (jitter, NOON, NOON + MINUTE)


def test_the_version_changes_with_whatever_is_written(ledger: Ledger) -> None:
    versions = [ledger.timings.version()]
    for written in (draft("a"), draft("a", schedule="0 8 * * *"), draft("b")):
        ledger.clock.advance(MINUTE)
        ledger.save(written)
        versions.append(ledger.timings.version())
    ledger.clock.advance(MINUTE)
    ledger.disable("a")
    versions.append(ledger.timings.version())

    assert len(set(versions)) == len(versions) == 5
    assert ledger.timings.version() == versions[-1]
