"""What every schedule store promises."""

from datetime import timedelta
from functools import partial

from cronhare.domain.cron import Fold, Gap
from cronhare.domain.retries.policy import Backoff, BackoffType, Jitter, RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import standalone_queue
from cronhare.domain.schedules.schedule import Misfire, MisfirePolicy, OverlapPolicy
from cronhare.domain.schedules.task import ClassRetention, TaskRef
from cronhare.domain.topology import MAIN_QUEUE
from tests.integration.ledgers import MINUTE, NOON, SECOND, Ledger, at_once, draft
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


def test_a_schedule_shows_its_plan(ledger: Ledger) -> None:
    ledger.add()

    (stored,) = ledger.schedules.schedules()

    assert (stored.next_due_at, stored.planned) == (NOON + MINUTE, True)


def test_a_schedule_of_the_same_name_is_replaced(ledger: Ledger) -> None:
    ledger.save(draft(description="old", timeout=MINUTE))
    before = ids_of(ledger.schedules, ["report"])
    ledger.clock.advance(SECOND)

    ledger.schedules.save([draft(params='{"v":2}')], source="other.toml", now=ledger.now)

    (stored,) = ledger.schedules.schedules()
    assert stored.draft == draft(params='{"v":2}')
    assert (stored.source, ids_of(ledger.schedules, ["report"])) == ("other.toml", before)
    assert (stored.created_at, stored.updated_at) == (NOON, NOON + SECOND)


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


def test_to_disable_what_is_off_already_is_no_edit(ledger: Ledger) -> None:
    ledger.save(draft("off", status=False))
    before = ledger.schedules.schedules()
    ledger.clock.advance(SECOND)

    ledger.disable("off")

    assert ledger.schedules.schedules() == before


def test_schedules_are_saved_and_disabled_at_once(ledger: Ledger) -> None:
    before = [draft("changed"), draft("gone")]
    ledger.schedules.save(before, source="shop", now=ledger.now)
    ledger.clock.advance(SECOND)
    wanted = [draft("changed", params='{"v":2}'), draft("new")]

    ledger.schedules.save(
        wanted,
        source="garden",
        now=ledger.now,
        disabled=["gone"],
    )

    changed, gone, new = ledger.schedules.schedules()
    assert [changed.draft, gone.draft, new.draft] == [
        wanted[0],
        draft("gone", status=False),
        wanted[1],
    ]
    assert [row.source for row in (changed, gone, new)] == ["garden", "shop", "garden"]
    assert {row.updated_at for row in (changed, gone, new)} == {NOON + SECOND}


def test_who_watches_is_told_of_schedules_as_they_are_written(ledger: Ledger) -> None:
    told: list[tuple[int, int]] = []
    ledger.save(draft("b"))

    ledger.schedules.save(
        [draft(name) for name in "abc"],
        source="shop",
        now=ledger.now,
        on_progress=lambda *counts: told.append(counts),
    )

    assert (told[0], told[-1]) == ((0, 3), (3, 3))
    assert told == sorted(told)


def test_many_writers_of_one_name_make_one_schedule(ledger: Ledger) -> None:
    at_once(8, lambda n: ledger.save(draft(params=f'{{"by":{n}}}')))

    assert len(ledger.schedules.schedules()) == 1


def test_a_schedule_is_created_with_an_id_and_no_source(ledger: Ledger) -> None:
    wanted = draft("new", params='{"a":"ü"}', user_id=7)

    id_ = ledger.schedules.create(wanted, now=ledger.now)

    assert id_ is not None
    stored = ledger.schedules.with_id(id_)
    assert stored is not None
    assert (stored.id, stored.draft, stored.source) == (id_, wanted, None)
    assert (stored.created_at, stored.planned) == (NOON, False)


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
    answers = at_once(4, lambda number: ledger.schedules.create(_numbered(number), now=ledger.now))

    [winner] = [id_ for id_ in answers if id_ is not None]
    [stored] = ledger.schedules.schedules()
    assert stored.id == winner
    assert stored.draft in [_numbered(number) for number in range(4)]


def _numbered(number: int) -> ScheduleDraft:
    return draft("new", description=f"of {number}")


def test_a_name_that_a_file_has_is_taken(ledger: Ledger) -> None:
    ledger.schedules.save([draft("nightly")], source="jobs.toml", now=ledger.now)

    assert ledger.schedules.create(draft("nightly", timeout=MINUTE), now=ledger.now) is None

    [stored] = ledger.schedules.schedules()
    assert (stored.draft, stored.source) == (draft("nightly"), "jobs.toml")


def test_no_schedule_has_an_id_that_none_was_given(ledger: Ledger) -> None:
    own = ledger.systems_own()

    for id_ in (0, -1, 10**30, own.scheduler_id, own.scheduler_id + 1_000):
        assert ledger.schedules.with_id(id_) is None


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
