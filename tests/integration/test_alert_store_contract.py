"""What every ledger promises of alerts."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from cronhare.domain.events.alerts import CLEAR_AFTER, Alert, key_of
from cronhare.domain.events.judging import ALERTED_AFTER, ScheduleSigns, Signs, SystemSigns
from cronhare.domain.events.rules import Rule
from cronhare.domain.execution import Execution
from cronhare.domain.retries.retry import Complete
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.events import AlertFilter, AlertPlace
from tests.integration.ledgers import (
    DAY,
    FAILURE,
    FOR_GOOD,
    IN_30_S,
    MINUTE,
    SECOND,
    SUCCESS,
    Ledger,
    at_once,
    draft,
)


def alert(
    rule: Rule = Rule.FAILED,
    value: int = 6,
    *,
    subject: str = "",
    source: str | None = None,
    scheduler_id: int = 0,
) -> Alert:
    return Alert(
        key=key_of(rule, subject, source),
        raised_at=datetime(2026, 3, 2, tzinfo=UTC),  # the store knows better
        data={"value": value, "why": "ß\n"},
        subject=subject,
        source=source,
        scheduler_id=scheduler_id,
    )


def listed(ledger: Ledger, *, cleared: bool = False) -> list[Alert]:
    """List what holds, or what is over."""
    found, _ = ledger.alerts.page(AlertFilter(cleared=True), after=None, limit=None)
    return [each for each in found if (each.cleared_at is not None) == cleared]


def keys(alerts: Collection[Alert]) -> list[str]:
    return sorted(each.key for each in alerts)


def signs(ledger: Ledger) -> Signs:
    return ledger.alerts.signs(now=ledger.now, retries=2)


def of(ledger: Ledger, run: Execution) -> ScheduleSigns:
    ids = [run.scheduler_id]
    [found] = ledger.alerts.schedule_signs(ids, usual=ids, now=ledger.now)
    return found


def test_of_all_callers_one_judges_in_each_minute(ledger: Ledger) -> None:
    def begin(_: int) -> bool:
        return ledger.alerts.begin(now=ledger.now, every=MINUTE)

    first = at_once(4, begin)
    ledger.alerts.keep([], now=ledger.now, ended_at=ledger.now)
    ledger.clock.advance(MINUTE - SECOND)
    soon = begin(0)
    ledger.clock.advance(SECOND)
    later = at_once(4, begin)

    assert sorted(first) == sorted(later) == [False, False, False, True]
    assert not soon


def test_while_one_judges_no_other_begins_until_that_has_taken_twice_as_long(
    ledger: Ledger,
) -> None:
    began = ledger.now
    assert ledger.alerts.begin(now=began, every=MINUTE)
    ledger.clock.advance(2 * MINUTE - SECOND)
    meanwhile = ledger.alerts.begin(now=ledger.now, every=MINUTE)
    kept = ledger.alerts.keep([alert()], now=began, ended_at=began)

    assert (meanwhile, keys(kept.raised)) == (False, ["failed"])
    assert ledger.alerts.begin(now=ledger.now, every=MINUTE)
    ledger.clock.advance(2 * MINUTE)
    assert ledger.alerts.begin(now=ledger.now, every=MINUTE)  # that one was killed


def test_unresolved_failures_and_retried_runs_are_counted(ledger: Ledger) -> None:
    ledger.succeeded(ledger.claimed("fine"))
    ledger.succeeded(ledger.finished(ledger.claimed("flaky"), IN_30_S))
    ledger.failed("broken")
    resolved = ledger.failed("mended")
    ledger.records.discard([resolved.id], note="", now=ledger.now)

    found = signs(ledger)

    assert (found.unresolved, found.runs, found.retried, found.worst) == (1, 4, 1, None)
    ledger.clock.advance(DAY + MINUTE)
    later = signs(ledger)
    assert (later.unresolved, later.runs) == (1, 0)


def test_the_newest_that_was_retried_too_often_is_found_until_soon_after_its_end(
    ledger: Ledger,
) -> None:
    run = ledger.claimed("flaky")
    for deaths in (1, 2):
        run = ledger.finished(run, IN_30_S)
        assert (run.deaths, signs(ledger).worst) == (deaths, None)
    run = ledger.finished(run, IN_30_S)

    found = signs(ledger)

    assert found.worst is not None
    assert (found.worst.id, found.worst.deaths, found.too_often) == (run.id, 3, 1)
    ledger.finished(run, FOR_GOOD)
    assert signs(ledger).too_often == 1
    ledger.clock.advance(CLEAR_AFTER + SECOND)
    assert signs(ledger).too_often == 0


def test_an_alert_is_raised_once_and_kept_until_it_has_not_held_for_a_while(
    ledger: Ledger,
) -> None:
    raised_at = ledger.now
    first = ledger.alerts.keep([alert(), alert(Rule.GROWING)], now=ledger.now, ended_at=ledger.now)
    ledger.clock.advance(MINUTE)
    again = ledger.alerts.keep([alert(value=7)], now=ledger.now, ended_at=ledger.now)
    kept = listed(ledger)
    ledger.clock.advance(CLEAR_AFTER)
    later = ledger.alerts.keep([alert(value=8)], now=ledger.now, ended_at=ledger.now)

    assert keys(first.raised) == ["failed", "growing"]
    assert (keys(again.raised), keys(again.cleared)) == ([], [])
    assert [(each.rule, each.raised_at) for each in kept] == [
        ("failed", raised_at),
        ("growing", raised_at),
    ]
    assert kept[0].data == {"value": 7, "why": "ß\n"}  # as it is now
    assert kept[1].data == {"value": 6, "why": "ß\n"}  # as it held last
    assert kept[0].held_at == raised_at + MINUTE
    assert (keys(later.raised), keys(later.cleared)) == ([], ["growing"])
    [left] = listed(ledger)
    assert (left.rule, left.raised_at, left.data["value"]) == ("failed", raised_at, 8)


def test_each_change_is_another_revision_and_nothing_else_is(ledger: Ledger) -> None:
    store, seen = ledger.alerts, [ledger.alerts.revision()]
    store.begin(now=ledger.now, every=MINUTE, source="shop")
    assert store.revision() == seen[-1]
    for held, passes in [([alert()], MINUTE), ([], CLEAR_AFTER + SECOND), ([], DAY + SECOND)]:
        ledger.clock.advance(passes)
        store.keep(held, now=ledger.now, ended_at=ledger.now)
        seen.append(store.revision())
        ledger.clock.advance(SECOND)
        store.keep(held, now=ledger.now, ended_at=ledger.now)
        assert store.revision() == seen[-1]

    assert seen[3] == seen[0]  # it is forgotten
    assert len({*seen}) == 3


def test_what_is_over_is_remembered_for_a_day_and_raised_anew(ledger: Ledger) -> None:
    raised_at = ledger.now
    ledger.alerts.keep([alert(), alert(Rule.GROWING)], now=ledger.now, ended_at=ledger.now)
    ledger.clock.advance(CLEAR_AFTER + SECOND)
    cleared = ledger.alerts.keep([], now=ledger.now, ended_at=ledger.now)
    cleared_at = ledger.now
    assert listed(ledger) == []
    over = listed(ledger, cleared=True)

    ledger.clock.advance(DAY)
    anew = ledger.alerts.keep([alert(value=9)], now=ledger.now, ended_at=ledger.now)
    remembered = keys(listed(ledger, cleared=True))
    ledger.clock.advance(SECOND)
    ledger.alerts.keep([alert(value=10)], now=ledger.now, ended_at=ledger.now)

    assert [each.data["value"] for each in anew.raised] == [9]
    assert (keys(cleared.cleared), keys(anew.raised)) == (["failed", "growing"], ["failed"])
    assert {(each.raised_at, each.cleared_at) for each in over} == {(raised_at, cleared_at)}
    [raised] = listed(ledger)
    assert (raised.raised_at, raised.data["value"]) == (cleared_at + DAY, 10)
    assert remembered == ["growing"]
    assert listed(ledger, cleared=True) == []


def test_each_source_judges_and_clears_its_own_and_nobodys_are_over_after_a_day(
    ledger: Ledger,
) -> None:
    late = alert(Rule.NOT_STARTED, subject="x" * 255, source="shop", scheduler_id=7)
    assert ledger.alerts.begin(now=ledger.now, every=MINUTE)
    assert ledger.alerts.begin(now=ledger.now, every=MINUTE, source="shop")
    assert not ledger.alerts.begin(now=ledger.now, every=MINUTE, source="shop")
    ledger.alerts.keep([late], now=ledger.now, ended_at=ledger.now, source="shop")
    ledger.alerts.keep([alert()], now=ledger.now, ended_at=ledger.now)

    ledger.clock.advance(DAY)
    soon = ledger.alerts.keep([], now=ledger.now, ended_at=ledger.now, source="other")
    ledger.clock.advance(SECOND)
    later = ledger.alerts.keep([alert()], now=ledger.now, ended_at=ledger.now)

    assert keys(soon.cleared) == []
    [over] = later.cleared
    assert (over.key, over.subject, over.source, over.scheduler_id) == (
        late.key,
        "x" * 255,
        "shop",
        7,
    )
    assert len(late.key) <= 32


def test_what_waits_for_a_scheduler_the_broker_or_a_worker_is_found(ledger: Ledger) -> None:
    def system_signs(*served: str) -> SystemSigns:
        return ledger.alerts.system_signs(now=ledger.now, served=served)

    unsent = ledger.claimed("unsent")
    ledger.published("sent", queue="cron_scheduler.reports")
    ledger.add("unclaimed", schedule=None, date_time=ledger.now + MINUTE)
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    assert system_signs() == SystemSigns()

    ledger.clock.advance(ALERTED_AFTER + SECOND)
    found = system_signs()

    assert found.earliest_due is not None
    assert [(name, each.runs, each.execution) for name, each in found.unsent.items()] == [
        (MAIN_QUEUE, 1, unsent.id)
    ]
    assert [(name, each.runs) for name, each in found.unserved.items()] == [
        ("cron_scheduler.reports", 1)
    ]
    assert system_signs("cron_scheduler.reports").unserved == {}


def test_the_runs_of_a_schedule_are_found_by_what_became_of_them(ledger: Ledger) -> None:
    waiting = ledger.claimed("waiting", timezone="Europe/Berlin")
    running = ledger.running("running")
    ledger.clock.advance(SECOND)
    assert of(ledger, running).running == of(ledger, running).unfinished
    ledger.finish(running, IN_30_S)
    done = ledger.succeeded(ledger.claimed("done"))
    failed = ledger.failed("broken")
    ledger.replayed(rate=10)

    found = of(ledger, waiting)
    assert (found.name, found.zone.key) == ("waiting", "Europe/Berlin")
    assert found.waiting is not None
    assert found.waiting.id == waiting.id
    assert found.unfinished == found.waiting
    assert (found.running, found.last) == (None, None)
    retrying = of(ledger, running)
    assert retrying.waiting is None
    assert retrying.unfinished is not None
    good = of(ledger, done)
    assert good.last is not None
    assert (good.last.id, good.last.has_succeeded, good.last.output) == (done.id, True, 0)
    assert good.unfinished is None
    again = ledger.alerts.schedule_signs([failed.scheduler_id], usual=[], now=ledger.now)
    assert [each.unfinished for each in again] == [None]


def test_a_run_that_waits_for_its_retry_does_not_run_and_each_attempt_counts_from_its_own_start(
    ledger: Ledger,
) -> None:
    flaky = ledger.finished(ledger.claimed("flaky"), IN_30_S)
    waiting = of(ledger, flaky)
    again = ledger.started(flaky)
    begun_at, second = ledger.now, of(ledger, again).running
    ledger.clock.advance(SECOND * 3)
    ledger.finish(again, Complete(), SUCCESS)
    last = of(ledger, again).last
    newer = ledger.claimed("flaky")
    begun = ledger.started(newer)
    ledger.clock.advance(SECOND * 11)
    ledger.finish(begun, Complete(), SUCCESS)

    assert waiting.running is None
    assert waiting.unfinished is not None
    assert second is not None
    assert (second.id, second.started_at) == (flaky.id, begun_at)
    assert last is not None
    assert (last.started_at, last.finished_at) == (begun_at, begun_at + SECOND * 3)
    assert [each.total_seconds() for each in of(ledger, newer).usual] == [3]


def test_what_is_usual_are_the_runs_before_the_last_that_succeeded(ledger: Ledger) -> None:
    for seconds in (1, 2, 3, 11):
        run = ledger.claimed("often")
        begun = ledger.started(run)
        ledger.clock.advance(SECOND * seconds)
        good = seconds != 2
        ledger.finish(begun, Complete() if good else FOR_GOOD, SUCCESS if good else FAILURE)

    found = of(ledger, run)
    [unasked] = ledger.alerts.schedule_signs([run.scheduler_id], usual=(), now=ledger.now)
    ledger.clock.advance(CLEAR_AFTER + SECOND)
    long_ago = of(ledger, run)

    assert [each.total_seconds() for each in found.usual] == [3, 1]
    assert (found.last and found.last.id) == run.id
    assert (unasked.usual, long_ago.usual) == ((), ())  # it cannot alert any more


def test_schedules_of_no_file_are_found_by_their_tasks(ledger: Ledger) -> None:
    task = draft().task
    ledger.schedules.save([draft("by-hand")], source=None, now=ledger.now)
    ledger.schedules.save([draft("off", status=False)], source=None, now=ledger.now)
    ledger.schedules.save([draft("filed")], source="shop", now=ledger.now)

    found = ledger.alerts.of_no_file([task], limit=100)

    assert [*found.values()] == [("by-hand", task)]
    assert ledger.alerts.of_no_file([TaskRef("report", 999_999)], limit=100) == {}


def test_of_those_that_keep_at_once_one_raises_and_one_clears(ledger: Ledger) -> None:
    held = [alert(), alert(Rule.GROWING)]
    assert ledger.alerts.begin(now=ledger.now, every=MINUTE)
    raised = at_once(
        4, lambda _: ledger.alerts.keep(held, now=ledger.now, ended_at=ledger.now).raised
    )
    assert sorted(keys([one for some in raised for one in some])) == ["failed", "growing"]
    for _ in range(CLEAR_AFTER // MINUTE):
        ledger.clock.advance(MINUTE)
        assert ledger.alerts.begin(now=ledger.now, every=MINUTE)
        assert not ledger.alerts.keep([], now=ledger.now, ended_at=ledger.now).cleared
    ledger.clock.advance(MINUTE)
    assert ledger.alerts.begin(now=ledger.now, every=MINUTE)
    cleared = at_once(
        4, lambda _: ledger.alerts.keep([], now=ledger.now, ended_at=ledger.now).cleared
    )
    assert sorted(keys([one for some in cleared for one in some])) == ["failed", "growing"]


def test_one_that_has_begun_and_not_ended_supersedes_nobody(ledger: Ledger) -> None:
    began = ledger.now
    assert ledger.alerts.begin(now=began, every=MINUTE)
    ledger.clock.advance(2 * MINUTE)
    assert ledger.alerts.begin(now=ledger.now, every=MINUTE)
    second = ledger.now
    ledger.clock.advance(MINUTE)
    first = ledger.alerts.keep([alert()], now=began, ended_at=ledger.now)
    at = ledger.alerts.judged_at()
    meanwhile = ledger.alerts.begin(now=ledger.now, every=MINUTE)  # the second judges still
    later = ledger.alerts.keep([alert(Rule.GROWING)], now=second, ended_at=second + 2 * MINUTE)
    late = ledger.alerts.keep([], now=began, ended_at=second + 3 * MINUTE)

    assert (keys(first.raised), at, meanwhile) == (["failed"], began + 3 * MINUTE, False)
    assert keys(later.raised) == ["growing"]
    assert (late.raised, late.cleared) == ((), ())
    assert ledger.alerts.judged_at() == second + 2 * MINUTE


def test_what_held_when_nobody_judged_is_not_over_before_somebody_has_seen_it(
    ledger: Ledger,
) -> None:
    assert ledger.alerts.begin(now=ledger.now, every=MINUTE)
    ledger.alerts.keep([alert()], now=ledger.now, ended_at=ledger.now)
    ledger.clock.advance(10 * MINUTE)

    over = list[int]()
    for _ in range(CLEAR_AFTER // MINUTE + 2):
        assert ledger.alerts.begin(now=ledger.now, every=MINUTE)
        over.append(len(ledger.alerts.keep([], now=ledger.now, ended_at=ledger.now).cleared))
        ledger.clock.advance(MINUTE)

    assert over == [0] * (CLEAR_AFTER // MINUTE + 1) + [1]


def test_a_page_has_what_holds_then_what_is_over_the_newest_first(ledger: Ledger) -> None:
    of_schedule = alert(Rule.TOO_LONG, subject="books", scheduler_id=7, source="j")
    lasting = [alert(Rule.NODE), alert(Rule.QUEUE), alert(Rule.QUEUE, subject="b")]

    def hold(*held: Alert, source: str | None = None) -> None:
        ledger.clock.advance(MINUTE)
        ledger.alerts.begin(now=ledger.now, every=MINUTE, source=source)
        ledger.alerts.keep(held, now=ledger.now, ended_at=ledger.now, source=source)

    hold(alert(), *lasting)
    hold(of_schedule, source="j")
    for _ in range(CLEAR_AFTER // MINUTE + 1):
        hold(*lasting)

    def page(after: AlertPlace | None = None, most: int = 99, **asked: Any) -> list[str]:  # noqa: ANN401
        found, goes_on = ledger.alerts.page(AlertFilter(**asked), after=after, limit=most)
        every, _ = ledger.alerts.page(AlertFilter(**asked), after=after, limit=None)
        assert goes_on == (len(every) > len(found))
        return [f"{each.rule} {each.subject}".strip() for each in found]

    every = ["too-long books", "node", "queue", "queue b"]
    assert page() == every
    assert page(cleared=True) == [*every, "failed"]
    assert page(severity="critical") == ["queue", "queue b"]
    assert page(rule="failed") == page(rule="node", severity="warning") == []
    assert page(schedule="books") == ["too-long books"]
    assert page(schedule="b") == page(schedule="books ") == []
    everything, _ = ledger.alerts.page(AlertFilter(cleared=True), after=None, limit=9)
    for at, one in enumerate(everything):
        rest = [*every, "failed"][at + 1 :]
        assert page(AlertPlace.of(one), cleared=True) == rest
        assert page(AlertPlace.of(one), 2, cleared=True) == rest[:2]
