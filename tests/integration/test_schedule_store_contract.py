"""What every ledger promises of schedules: stored, edited, listed, timed, and kept alive."""

from datetime import timedelta
from functools import partial

import attrs
import pytest

from cronhare.adapters.sql import schedule_lists
from cronhare.domain.cron import Fold, Gap
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle.claims import RunsAlready
from cronhare.domain.messages import TaskMessage
from cronhare.domain.retries.policy import Backoff, BackoffType, Jitter, RetryPolicy
from cronhare.domain.schedules.keys import standalone_queue
from cronhare.domain.schedules.schedule import (
    Every,
    Misfire,
    MisfirePolicy,
    Once,
    OverlapPolicy,
    Recurring,
)
from cronhare.domain.schedules.skips import Pause
from cronhare.domain.schedules.task import ClassRetention, TaskRef
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports import schedules
from cronhare.ports.records import ExecutionFilter
from cronhare.ports.schedules import (
    KeptByRuns,
    Outdated,
    ScheduleFilter,
    StoredSchedule,
)
from tests.integration.ledgers import HOUR, MINUTE, NOON, SECOND, Ledger, at_once, draft
from tests.ports import ids_of


def test_a_schedule_is_read_as_it_was_written(ledger: Ledger) -> None:
    written = draft(
        "nightly",
        task=TaskRef("event", 3),
        schedule="30 2 * * 1-5",
        gap=Gap.SKIP,
        fold=Fold.BOTH,
        timezone="Europe/Berlin",
        params='{"a":[1,2.5,null,"ü"]}',
        status=False,
        description="the report that everybody waits for",
        retry=RetryPolicy(
            attempts=6,
            backoff=Backoff(
                type=BackoffType.SEQUENCE,
                sequence=(30_000, 30_000, 60_000),
                max_delay=90_000,
                jitter=Jitter.FULL,
            ),
        ),
        retention=ClassRetention(class_="emails", done=100, failed=500),
        misfire=Misfire(policy=MisfirePolicy.ALL, window=timedelta(hours=2), cap=7),
        overlap=OverlapPolicy.SKIP,
        timeout=timedelta(seconds=90),
        jitter=timedelta(milliseconds=1_500),
        starts_at=NOON + timedelta(days=1),
        ends_at=NOON + timedelta(days=30),
        queue="cron_scheduler.reports",
    )

    ledger.schedules.save([written], source="jobs.toml", now=ledger.now)

    (stored,) = ledger.schedules.schedules()
    assert (stored.name, stored.draft, stored.problem) == ("nightly", written, None)
    assert (stored.source, stored.created_at, stored.updated_at) == ("jobs.toml", NOON, NOON)
    assert (stored.next_due_at, stored.planned) == (None, False)


def test_every_kind_of_task_and_of_timing_is_kept(ledger: Ledger) -> None:
    drafts = [
        draft("a-report", task=TaskRef("report", 25)),
        draft("b-worker", task=TaskRef("worker", 25), schedule=None),
        draft("c-reminder", task=TaskRef("reminder", 25), schedule=None, date_time=NOON + MINUTE),
        draft("d-event", task=TaskRef("event", 25)),
        draft("e-interval", schedule=None, every=timedelta(days=366)),
    ]

    ledger.save(*drafts)

    assert [stored.draft for stored in ledger.schedules.schedules()] == drafts


def test_only_the_named_schedules_are_listed_and_unknown_names_left_out(ledger: Ledger) -> None:
    ledger.save(draft("b"), draft("c"), draft("a"))

    assert [stored.name for stored in ledger.schedules.schedules(["c", "a", "x"])] == ["a", "c"]
    assert list(ledger.schedules.schedules([])) == []
    assert list(ledger.schedules.schedules(["c ", "A"])) == []


def test_an_owner_of_whom_an_edit_says_nothing_stays(ledger: Ledger) -> None:
    ledger.save(draft(user_id=7, group_id=3))

    ledger.save(draft(group_id=4, language_id=2))

    [stored] = ledger.schedules.schedules()
    assert stored.draft is not None
    found = stored.draft
    assert (found.user_id, found.group_id, found.language_id) == (7, 4, 2)


def test_a_switch_is_an_edit_of_what_changes_and_of_nothing_else(ledger: Ledger) -> None:
    ledger.save(draft("off", status=False, params='{"a":1}'), draft("on"), draft("other"))
    ledger.plan_edited()
    ledger.clock.advance(10 * MINUTE)

    changed = ledger.schedules.switch(["off", "on", "unknown"], on=True, now=ledger.now)

    by_name = {row.name: row for row in ledger.schedules.schedules()}
    assert list(changed) == ["off"]
    assert by_name["off"].draft == draft("off", params='{"a":1}')
    assert [by_name[name].updated_at for name in ("off", "on", "other")] == [ledger.now, NOON, NOON]
    ledger.plan_edited()
    assert ledger.schedules.schedules(["off"])[0].next_due_at == ledger.now + MINUTE
    assert set(ledger.schedules.switch(["off", "on"], on=False, now=ledger.now)) == {"off", "on"}


def test_schedules_are_saved_and_disabled_at_once(ledger: Ledger) -> None:
    before = [draft("changed"), draft("gone")]
    ledger.schedules.save(before, source="shop", now=ledger.now)
    ledger.clock.advance(SECOND)
    wanted = [draft("changed", params='{"v":2}'), draft("new")]

    ledger.schedules.save(wanted, source="garden", now=ledger.now, disabled=["gone"])

    rows = ledger.schedules.schedules()
    assert [row.draft for row in rows] == [wanted[0], draft("gone", status=False), wanted[1]]
    assert [row.source for row in rows] == ["garden", "shop", "garden"]
    assert {row.updated_at for row in rows} == {NOON + SECOND}


def test_many_writers_of_one_name_make_one_schedule(ledger: Ledger) -> None:
    at_once(8, lambda n: ledger.save(draft(params=f'{{"by":{n}}}')))

    assert len(ledger.schedules.schedules()) == 1


def test_what_a_request_has_made_is_found_by_it_until_it_is_deleted_or_a_files(
    ledger: Ledger,
) -> None:
    asked = "a1" * 32
    id_ = ledger.schedules.create(draft("http-1"), now=ledger.now, request=asked)
    ledger.schedules.create(draft("by-hand"), now=ledger.now)

    def made(request: str = asked, name: str = "http-1") -> int | None:
        return ledger.schedules.made_by(request, name=name)

    assert id_ is not None
    assert (made(), made("b2" * 32), made(name="by-hand"), made(name="none")) == (id_, *[None] * 3)
    ledger.edits.edit(id_, draft("http-1", timeout=MINUTE), seen=None, now=ledger.now)
    ledger.schedules.switch(["http-1"], on=False, now=ledger.now)
    assert made() == id_
    ledger.schedules.save([draft("http-1")], source="jobs.toml", now=ledger.now)
    assert made() is None
    again = ledger.schedules.create(draft("http-2"), now=ledger.now, request=asked)
    assert again is not None
    ledger.edits.delete(again, seen=None)
    assert made(name="http-2") is None


def test_of_several_who_create_one_name_one_is_answered_an_id(ledger: Ledger) -> None:
    drafts = [draft("new", description=f"of {number}", user_id=7) for number in range(4)]

    answers = at_once(4, lambda number: ledger.schedules.create(drafts[number], now=ledger.now))

    [winner] = [id_ for id_ in answers if id_ is not None]
    stored = found(ledger, winner)
    assert (stored.id, stored.draft) == (winner, drafts[answers.index(winner)])
    assert (stored.source, stored.created_at, stored.planned) == (None, NOON, False)
    assert [each.id for each in ledger.schedules.schedules()] == [winner]


def test_what_there_is_not_is_neither_found_nor_edited_nor_deleted(ledger: Ledger) -> None:
    systems_own = ledger.systems_own().scheduler_id

    for id_ in (0, -1, 999_999, 2**63 - 1, 2**63, 10**30, systems_own):
        assert ledger.schedules.with_id(id_) is None
        assert ledger.edits.edit(id_, draft(), seen=None, now=ledger.now) is None
        assert ledger.edits.delete(id_, seen=None) is None


def test_the_neighbours_of_a_name_are_found(ledger: Ledger) -> None:
    ledger.save(*map(draft, ["a1", "a2", "a3", "b1", "b2"]))

    assert {*ledger.schedules.near("a9", limit=4)} == {"a2", "a3", "b1", "b2"}
    assert {*ledger.schedules.near("x", limit=10)} == {"a1", "a2", "a3", "b1", "b2"}


def test_schedules_are_counted_by_their_queues(ledger: Ledger) -> None:
    ledger.save(
        draft("a"), draft("b"), draft("c", status=False), draft("d", queue="cron_scheduler.mail")
    )
    ledger.save(draft("pump", schedule=None, stay_alive=True))

    assert dict(ledger.schedules.on_queues()) == {
        MAIN_QUEUE: 2, "cron_scheduler.mail": 1, standalone_queue("pump"): 1,
    }  # fmt: skip


def test_what_stays_alive_is_named_while_it_is_enabled(ledger: Ledger) -> None:
    alive = partial(draft, schedule=None, stay_alive=True)
    ledger.save(draft("a"), alive("pump"), alive("a bridge"), alive("off", status=False))

    assert {*ledger.schedules.staying_alive()} == {"pump", "a bridge"}
    [pump] = ledger.schedules.schedules(["pump"])
    before = pump.updated_at - timedelta(hours=1)
    assert {*ledger.schedules.staying_alive(since=before)} == {"pump", "a bridge"}
    assert [*ledger.schedules.staying_alive(since=pump.updated_at + timedelta(days=1))] == []


def test_names_differ_by_every_letter_and_any_letter_comes_back_as_it_was_written(
    ledger: Ledger,
) -> None:
    letters = '{"text": "naïve 😀 \\\\ \' \\" %s :x {} \\u0000 \\n"}'
    ledger.save(draft("report", params=letters), draft("Report"), draft("réport"))

    found = {row.name: row.draft for row in ledger.schedules.schedules()}

    assert list(found) == ["Report", "report", "réport"]
    assert found["report"] is not None
    assert found["report"].params == letters
    assert ledger.seen(ledger.claimed("other", params=letters)).params == letters


# Edited and deleted one by one


def test_an_edit_says_all_and_keeps_name_source_and_id(ledger: Ledger) -> None:
    written = draft("nightly", user_id=7, group_id=8, task_name="report", description="a")
    ledger.schedules.save([written], source="jobs.toml", now=ledger.now)
    [before] = ledger.schedules.schedules()
    new = attrs.evolve(
        written, schedule="0 3 * * *", user_id=None, task=TaskRef("worker", 3), timeout=MINUTE
    )
    ledger.clock.advance(MINUTE)

    edited = ledger.edits.edit(before.id, new, seen=before.updated_at, now=ledger.now)

    assert isinstance(edited, StoredSchedule)
    assert edited == ledger.schedules.with_id(before.id)
    assert (edited.draft, edited.source, edited.name) == (new, "jobs.toml", "nightly")
    assert (edited.created_at, edited.updated_at) == (before.created_at, ledger.now)
    assert edited.planned is False


def test_of_many_who_have_seen_the_same_one_edits(ledger: Ledger) -> None:
    id_ = ledger.add("contested")
    seen = found(ledger, id_)

    def edit(number: int) -> StoredSchedule | Outdated | None:
        wanted = draft("contested", params=f'{{"a":{number}}}')
        return ledger.edits.edit(id_, wanted, seen=seen.updated_at, now=ledger.now)

    answers = at_once(4, edit)

    now = found(ledger, id_)
    assert answers.count(now) == 1
    assert answers.count(Outdated(now)) == 3
    assert now.updated_at > seen.updated_at
    whatever = draft("contested", params='{"a":9}')
    assert isinstance(ledger.edits.edit(id_, whatever, seen=None, now=ledger.now), StoredSchedule)


def test_what_has_no_run_is_deleted_with_its_plan_and_pause(ledger: Ledger) -> None:
    id_, other = ledger.add("gone"), ledger.add("stays")
    ledger.schedules.pause("gone", Pause(since=ledger.now), now=ledger.now)
    before = found(ledger, id_)
    ledger.clock.advance(timedelta(seconds=1))

    assert ledger.edits.delete(id_, seen=before.updated_at - HOUR) == Outdated(before)
    assert ledger.edits.delete(id_, seen=before.updated_at) == before

    assert ledger.edits.delete(id_, seen=None) is None
    assert [each.id for each in ledger.schedules.schedules()] == [other]
    ledger.clock.advance(HOUR)
    assert [row.schedule_name for row in ledger.claim_due().claimed] == ["stays"]
    again = ledger.add("gone")
    assert found(ledger, again).pause is None


def test_what_has_run_is_kept_and_its_history_deleted_on_request_while_nothing_of_it_may_run_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_lists, "STEP", 1)  # so that this takes several steps
    failed = ledger.failed("ran")
    done = ledger.succeeded(ledger.claimed("ran"))
    other = ledger.succeeded(ledger.claimed("stays"))
    id_ = done.scheduler_id

    kept = ledger.edits.delete(id_, seen=None)
    waits = ledger.edits.delete(id_, seen=None, with_history=True)
    ledger.records.discard([failed.id], note="known", now=ledger.now)
    gone = ledger.edits.delete(id_, seen=None, with_history=True)

    assert (kept, waits) == (KeptByRuns(2), KeptByRuns(1))
    assert (isinstance(gone, StoredSchedule), ledger.schedules.with_id(id_)) == (True, None)
    assert ledger.records.execution(done.id) is None
    assert ledger.records.execution(other.id) == other
    assert [row.id for row in ledger.records.archived([failed.id])] == [failed.id]


def found(ledger: Ledger, id_: int) -> StoredSchedule:
    stored = ledger.schedules.with_id(id_)
    assert stored is not None
    return stored


# Lists


ALL = ScheduleFilter()


def names(ledger: Ledger, which: ScheduleFilter = ALL, *, after: str | None = None) -> list[str]:
    page = ledger.lists.page(which, after=after, limit=2, now=ledger.now)
    return [stored.name for stored in page]


def test_schedules_are_listed_by_name_a_page_at_a_time(ledger: Ledger) -> None:
    ledger.save(*map(draft, ["cleanup", "backup", "report", "archive", "Mail"]))

    assert names(ledger) == ["Mail", "archive"]
    assert names(ledger, after="archive") == ["backup", "cleanup"]
    assert names(ledger, after="by-now-deleted") == ["cleanup", "report"]
    assert names(ledger, after="report") == []


def test_a_page_has_what_its_filter_takes(ledger: Ledger) -> None:
    ledger.save(draft("a"), draft("b", status=False), draft("c"), draft("d", description="Weekly"))
    ledger.schedules.pause("c", Pause(since=ledger.now), now=ledger.now)

    assert names(ledger, ScheduleFilter(enabled=False)) == ["b"]
    assert names(ledger, ScheduleFilter(paused=True)) == ["c"]
    assert names(ledger, ScheduleFilter(paused=False, enabled=True)) == ["a", "d"]
    assert names(ledger, ScheduleFilter(search="week")) == ["d"]


def test_a_search_is_for_letters_and_for_no_pattern(ledger: Ledger) -> None:
    ledger.save(draft("off_1"), draft("off-2", description="A 100% Ü"))
    ledger.schedules.save([draft("of-a-file")], source="jobs.toml", now=ledger.now)

    assert names(ledger, ScheduleFilter(search="OFF")) == ["off-2", "off_1"]
    assert names(ledger, ScheduleFilter(search="f_")) == ["off_1"]
    assert names(ledger, ScheduleFilter(search="100% Ü")) == ["off-2"]
    assert names(ledger, ScheduleFilter(search="100%%")) == []
    assert names(ledger, ScheduleFilter(source="jobs.toml")) == ["of-a-file"]
    assert names(ledger, ScheduleFilter(source="jobs.toml ")) == []


def test_many_schedules_are_counted_up_to_a_bound(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = type(ledger.lists).__module__
    monkeypatch.setattr(f"{module}.MOST_COUNTED", 2)
    assert schedules.MOST_COUNTED > 2
    ledger.save(draft("a"), draft("b", status=False))
    assert ledger.lists.count(ALL, now=ledger.now) == 2

    ledger.save(*(draft(name) for name in "cdef"))

    assert ledger.lists.count(ALL, now=ledger.now) == 3
    assert ledger.lists.count(ScheduleFilter(enabled=False), now=ledger.now) == 1


# When schedules are due


def counted(ledger: Ledger) -> dict[str, int]:
    found = ledger.timings.timings()
    assert found.broken == 0
    return {each.text: each.number for each in found.groups}


def test_enabled_schedules_of_one_text_and_zone_are_counted_together(ledger: Ledger) -> None:
    ledger.save(
        draft("a", schedule="0 8 * * *"),
        draft("b", schedule="0 8 * * *", params='{"a": 1}'),
        draft("c", schedule="0 8 * * *", timezone="Asia/Tokyo"),
        draft("d", schedule="0 8 * * THU"),
        draft("off", status=False),
        draft("by-hand", schedule=None),
    )

    assert counted(ledger) == {
        "0 8 * * * UTC": 2,
        "0 8 * * * Asia/Tokyo": 1,
        "0 8 * * THU UTC": 1,
    }


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


# Schedules with stay_alive (C40 in docs/compatibility.md)


OWN = "cron_standalone.pump"


def test_its_runs_go_to_a_queue_of_their_own_by_hand_and_from_elsewhere_too(
    ledger: Ledger,
) -> None:
    id_ = ledger.add("pump", stay_alive=True)
    ledger.add("innocent")
    message = TaskMessage(type="report", id=25, scheduler_id=id_, params_scheduler="{}")
    by_hand = run_now(ledger, "manual-1")
    ledger.records.cancel(by_hand.id, now=ledger.now)
    ledger.clock.advance(MINUTE)

    queues = {run.schedule_name: run.queue for run in ledger.claim_due().claimed}
    adopted = ledger.attempts.adopt(
        message, key="manual-2", queue="cron_scheduler", deaths=0, now=ledger.now, node="ant"
    )

    assert queues == {"pump": OWN, "innocent": "cron_scheduler"}
    assert isinstance(adopted, Execution)
    assert (by_hand.queue, adopted.queue) == (OWN, OWN)
    assert ledger.seen(adopted) == adopted


def test_it_is_begun_by_nobody_beside_a_run_of_its_own(ledger: Ledger) -> None:
    ledger.save(draft("pump", stay_alive=True))
    first = run_now(ledger, "manual-1")

    with pytest.raises(RunsAlready, match=f"one run at a time, and it has execution {first.id};"):
        run_now(ledger, "alive-0")

    assert run_now(ledger, "manual-1") == first
    ledger.records.cancel(first.id, now=ledger.now)
    assert run_now(ledger, "alive-1").state is State.CLAIMED


@pytest.mark.parametrize("is_planned", [False, True])
def test_of_many_that_begin_it_at_once_one_does(ledger: Ledger, *, is_planned: bool) -> None:
    ledger.save(draft("pump", stay_alive=True, schedule="* * * * *", date_time=None))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)

    def begin(number: int) -> Execution | None:
        if is_planned and not number:
            ledger.claim_due()
            return None
        try:
            return run_now(ledger, f"manual-{number // 2}")
        except RunsAlready:
            return None

    at_once(8, begin)

    unfinished = [run for run in ledger.executions() if run.state is State.CLAIMED]
    assert len(unfinished) == 1


def run_now(ledger: Ledger, key: str) -> Execution:
    id_ = ids_of(ledger.schedules, ["pump"])["pump"]
    return ledger.run_now(id_, key)


def test_what_was_begun_to_stay_alive_and_has_not_ended_is_listed_by_itself(
    ledger: Ledger,
) -> None:
    ledger.save(draft("pump", stay_alive=True), draft("innocent"))
    begun = run_now(ledger, "alive-0")
    ledger.save(draft("pump"))
    ids = ids_of(ledger.schedules, ["pump", "innocent"])
    for name, key in (("pump", "manual-1"), ("pump", "manual-2"), ("innocent", "manual-3")):
        ledger.run_now(ids[name], key)

    def found(schedule: str | None) -> list[int]:
        which = ExecutionFilter(schedule=schedule, states=UNFINISHED, stays_alive=True, limit=1)
        return [run.id for run in ledger.records.executions(which)]

    assert (found(None), found("pump"), found("innocent")) == ([begun.id], [begun.id], [])
    ledger.records.cancel(begun.id, now=ledger.now)
    assert (found(None), found("pump")) == ([], [])
