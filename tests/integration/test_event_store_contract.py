"""What every store of events promises."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import attrs

from cronhare.application.events.announce import Pinger
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events import events
from cronhare.domain.events.events import Event
from cronhare.domain.events.outbox import EXPIRES_AFTER, OutboxRow, OutboxState, RunEnd
from cronhare.domain.events.targets import ByPing, EventKind, Subscriptions, Target
from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.claims import DEFAULT_ALLOWANCE
from cronhare.domain.retries.retry import Complete, Quarantine
from cronhare.domain.schedules.keys import (
    alive_key,
    backfill_key,
    manual_key,
    start_key,
)
from cronhare.domain.schedules.schedule import OverlapPolicy
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.events import Expired, Page
from cronhare.ports.runner import Captured
from tests.integration.ledgers import (
    CRASH,
    DAY,
    FAILURE,
    FOR_GOOD,
    HOUR,
    IN_30_S,
    MINUTE,
    SECOND,
    SUCCESS,
    Ledger,
    at_once,
    draft,
)
from tests.integration.rules import Refusing
from tests.trial_event import trial

SHOP = "shop"
LEASE = timedelta(seconds=90)


def watched(ledger: Ledger, name: str, **changes: Any) -> Mapping[int, str]:  # noqa: ANN401
    """Write a schedule of the file, and another; give the id of the one."""
    drafts = [draft(name, **changes), draft("other")]
    ledger.schedules.save(drafts, source=SHOP, now=ledger.now)
    ledger.plan_edited()
    return ledger.events.schedule_ids([name, "missing"], source=SHOP)


def claimed_of(ledger: Ledger, ids: Collection[int]) -> list[Execution]:
    """Let a minute pass, and claim what is due then of some schedules."""
    ledger.clock.advance(MINUTE)
    return [one for one in ledger.claim_due().claimed if one.scheduler_id in ids]


def bad_ends(ledger: Ledger) -> list[Archived]:
    refs = [TaskRef("report", 25)]  # what `draft` names, in rows without a source
    return [*ledger.events.bad_ends(source=SHOP, refs=refs, now=ledger.now, limit=100)]


def told(ledger: Ledger, ended: Archived, *targets: str) -> list[OutboxRow]:
    event = events.bad_end(ended)
    return [OutboxRow.of(event, target, source=SHOP, now=ledger.now) for target in targets]


def announced(ledger: Ledger, *targets: str) -> None:
    """Let a run fail, and announce that."""
    ledger.failed()
    [ended] = bad_ends(ledger)
    rows = {ended.id: told(ledger, ended, *targets)}
    assert ledger.events.announce(rows, now=ledger.now, until=None) == 1


def take(ledger: Ledger, target: str, **asked: Any) -> list[OutboxRow]:  # noqa: ANN401
    given = {"now": ledger.now, "lease": LEASE, "node": "ant", "limit": 9, **asked}
    return [*ledger.events.take(target, source=SHOP, **given)]


def success_after(ledger: Ledger, expected: OutboxRow) -> Execution | None:
    after, by = expected.occurred_at, ledger.now
    return ledger.events.first_success(expected.scheduler_id, after=after, by=by)


def fails(ledger: Ledger, *told_to: str, hopes: str, once: Collection[str] = ()) -> OutboxRow:
    """Let a run fail, and announce that to targets, and who *hopes* for a recovery; gives that."""
    ledger.failed("report", schedule=None)
    [ended] = bad_ends(ledger)
    hope = OutboxRow.expecting(events.bad_end(ended), hopes, source=SHOP, now=ledger.now)
    rows = {ended.id: [*told(ledger, ended, *told_to), hope]}
    ledger.events.announce(rows, now=ledger.now, until=None, once=once)
    ledger.clock.advance(SECOND)
    return hope


def recovered(expected: OutboxRow, success: Execution | None) -> Event:
    assert success is not None
    return events.recovered(
        success, failed_at=expected.occurred_at, failed_execution_id=expected.execution_id
    )


def expire(ledger: Ledger, *, kept: timedelta, expected: timedelta = DAY) -> Expired:
    now = ledger.now
    return ledger.events.expire(
        before=now, kept_since=now - kept, expected_since=now - expected, now=now
    )


def arrivals(ledger: Ledger, ids: Collection[int], **page: int) -> Page:
    return ledger.events.arrivals(ids, since=ledger.now - HOUR, **{"after": 0, "limit": 9, **page})


def begun_late(ledger: Ledger, ids: Collection[int], *, ago: timedelta = DAY, **page: int) -> Page:
    given = {"after": 0, "limit": 9, **page}
    return ledger.events.begun_late(ids, by=MINUTE, now=ledger.now, since=ledger.now - ago, **given)


def test_a_bad_end_is_announced_once_by_whoever_comes_first(ledger: Ledger) -> None:
    ledger.failed()
    [ended] = bad_ends(ledger)
    rows = {ended.id: told(ledger, ended, "hook", "mail")}

    answers = at_once(4, lambda _: ledger.events.announce(rows, now=ledger.now, until=None))

    assert sorted(answers) == [0, 0, 0, 1]
    assert bad_ends(ledger) == []
    assert {row.target for row in ledger.events.rows(limit=9)} == {"hook", "mail"}
    assert ledger.events.add(rows[ended.id], now=ledger.now)
    assert len(ledger.events.rows(limit=9)) == 2


def test_a_bad_end_of_which_the_ledger_takes_no_event_does_not_stop_its_neighbours(
    database_ledger: Ledger, refusing: Refusing
) -> None:
    ledger = database_ledger
    for name in ("good", "bad", "fine"):
        ledger.failed(name)
    rows = {ended.id: told(ledger, ended, "ops") for ended in bad_ends(ledger)}

    with refusing("EventDelivery", "INSERT", "NEW.schedule_name = 'bad'"):
        announced = ledger.events.announce(rows, now=ledger.now, until=None)

    assert announced == 2
    assert {row.schedule_name for row in ledger.events.rows(limit=9)} == {"good", "fine"}
    assert bad_ends(ledger) == []


def test_a_bad_end_that_is_left_to_others_comes_back_and_expires_after_a_day(
    ledger: Ledger,
) -> None:
    ledger.failed()
    [ended] = bad_ends(ledger)

    later = ledger.now + MINUTE
    ledger.events.announce({ended.id: ()}, now=ledger.now, until=later)
    meanwhile = bad_ends(ledger)
    ledger.clock.advance(MINUTE)
    [again] = bad_ends(ledger)
    expired = expire(ledger, kept=DAY)

    assert (meanwhile, again.id) == ([], ended.id)
    assert (expired.failures, expired.rows) == (1, 0)
    assert bad_ends(ledger) == []


def test_what_was_due_by_another_time_is_taken_for_a_lease_from_now_on(ledger: Ledger) -> None:
    announced(ledger, "hook")

    def of_a_minute_ago() -> list[OutboxRow]:
        return take(ledger, "hook", due_by=ledger.now - MINUTE)

    assert of_a_minute_ago() == []
    assert ledger.events.due(["hook"], source=SHOP, due_by=ledger.now - MINUTE) == []
    ledger.clock.advance(MINUTE)
    [taken] = of_a_minute_ago()

    assert taken.next_try_at == ledger.now + LEASE


def test_of_many_callers_each_event_is_taken_by_one_and_after_its_lease_by_another(
    ledger: Ledger,
) -> None:
    announced(ledger, "hook", "mail")

    answers = at_once(4, lambda n: take(ledger, "hook", node=f"node-{n}"))
    [mine] = [one for answer in answers for one in answer]
    ledger.clock.advance(LEASE)
    [theirs] = take(ledger, "hook", node="bee")
    late = ledger.events.settle(mine, OutboxState.DELIVERED, now=ledger.now)
    settled = ledger.events.settle(theirs, OutboxState.DELIVERED, now=ledger.now)

    assert (mine.tries, theirs.tries, theirs.owner) == (1, 2, "bee")
    assert (late, settled) == (False, True)
    assert take(ledger, "hook") == []
    assert ledger.events.due(["hook", "mail"], source=SHOP, due_by=ledger.now) == ["mail"]
    assert ledger.events.due(["mail"], source="other", due_by=ledger.now) == []
    assert ledger.events.waiting(["hook", "mail"], source=SHOP) == {"mail": 1}
    assert ledger.events.waiting(["hook", "mail"], source="other") == {}
    [row] = ledger.events.rows(states=[OutboxState.DELIVERED], limit=9)
    assert (row.id, row.finished_at, row.payload) == (mine.id, ledger.now, mine.payload)


def test_a_try_in_vain_waits_and_what_is_too_old_is_given_up_then_deleted(ledger: Ledger) -> None:
    announced(ledger, "hook")
    [mine] = take(ledger, "hook")

    later = ledger.now + SECOND
    ledger.events.settle(
        mine, OutboxState.WAITING, now=ledger.now, next_try_at=later, error="refused"
    )
    at_once_ = take(ledger, "hook")
    ledger.clock.advance(SECOND)
    [again] = take(ledger, "hook")
    ledger.clock.advance(DAY)
    expired = expire(ledger, kept=DAY)
    [row] = ledger.events.rows(limit=9)
    expire(ledger, kept=-SECOND)

    assert (at_once_, again.last_error, expired.rows) == ([], "refused", 1)
    assert row.state == OutboxState.EXPIRED
    assert ledger.events.rows(limit=9) == []


def test_what_is_older_than_a_day_is_taken_by_nobody_though_nobody_gave_it_up(
    ledger: Ledger,
) -> None:
    announced(ledger, "hook")
    [waiting] = ledger.events.rows(limit=9)
    ledger.clock.move_to(waiting.occurred_at + EXPIRES_AFTER)

    def pending() -> Mapping[str, int]:
        return ledger.events.pending("hook", source=SHOP, due_by=ledger.now, most=9)

    on_time = ledger.events.due(["hook"], source=SHOP, due_by=ledger.now), pending()
    ledger.clock.advance(SECOND)
    too_late = ledger.events.due(["hook"], source=SHOP, due_by=ledger.now), pending()

    assert (on_time, too_late) == ((["hook"], {"failed": 1}), ([], {}))
    assert take(ledger, "hook") == []
    assert expire(ledger, kept=DAY).rows == 1


def test_what_is_being_told_is_not_given_up_before_its_lease_is_over(ledger: Ledger) -> None:
    announced(ledger, "hook", "mail")
    ledger.clock.advance(SECOND)
    [mine] = take(ledger, "hook")
    [lost] = take(ledger, "mail")

    under_way = expire(ledger, kept=DAY)
    settled = ledger.events.settle(mine, OutboxState.DELIVERED, now=ledger.now)
    ledger.clock.advance(LEASE)
    later = expire(ledger, kept=DAY)

    assert (under_way.rows, settled, later.rows) == (0, True, 1)
    [row] = ledger.events.rows(states=[OutboxState.EXPIRED], limit=9)
    assert row.id == lost.id


def test_a_recovery_is_expected_for_longer_than_what_was_told_is_kept(ledger: Ledger) -> None:
    fails(ledger, hopes="hook")
    ledger.clock.advance(2 * DAY)

    expire(ledger, kept=DAY, expected=3 * DAY)
    kept = ledger.events.expected(source=SHOP, after=0, limit=9)
    expire(ledger, kept=DAY, expected=DAY)

    assert [one.target for one in kept] == ["hook"]
    assert ledger.events.expected(source=SHOP, after=0, limit=9) == []


def test_a_recovery_is_told_after_the_last_bad_end_and_once(ledger: Ledger) -> None:
    hopes = [fails(ledger, hopes="hook") for _ in range(2)]
    [expected] = ledger.events.expected(source=SHOP, after=0, limit=9)
    assert list(ledger.events.expected(source=SHOP, after=expected.id, limit=9)) == []
    before = success_after(ledger, expected)
    success = ledger.succeeded(ledger.claimed("report"))

    found = success_after(ledger, expected)
    event = recovered(expected, found)
    answers = [ledger.events.recover(expected, event, now=ledger.now) for _ in range(2)]

    assert (before, found and found.id, answers) == (None, success.id, [True, False])
    assert expected.occurred_at == hopes[1].occurred_at
    [mine] = take(ledger, "hook")
    assert (mine.event, mine.execution_id) == ("recovered", success.id)


def test_who_is_told_once_hears_of_the_first_bad_end_until_the_schedule_recovers(
    ledger: Ledger,
) -> None:
    def fail() -> None:
        fails(ledger, "mail", "hook", hopes="mail", once={"mail"})

    def recovers() -> None:
        success = ledger.succeeded(ledger.claimed("report"))
        [expected] = ledger.events.expected(source=SHOP, after=0, limit=9)
        ledger.events.recover(expected, recovered(expected, success), now=ledger.now)
        ledger.clock.advance(SECOND)

    def hears(target: str, state: OutboxState) -> list[str]:
        rows = take(ledger, target)
        for row in rows:
            ledger.events.settle(row, state, now=ledger.now)
        return [row.event for row in rows]

    fail()
    fail()
    first = hears("mail", OutboxState.GIVEN_UP)
    fail()  # nobody has heard of the first
    fail()
    second = hears("mail", OutboxState.DELIVERED)
    fail()
    third = hears("mail", OutboxState.DELIVERED)
    recovers()
    fail()
    last = hears("mail", OutboxState.DELIVERED)

    assert (first, second, third, last) == (["failed"], ["failed"], [], ["recovered", "failed"])
    assert hears("hook", OutboxState.DELIVERED) == ["failed"] * 6


def test_what_is_replayed_is_not_late(ledger: Ledger) -> None:
    first = ledger.failed("one")
    [one] = ledger.executions()
    ledger.clock.advance(20 * HOUR)

    [again] = ledger.records.replay({first.id}, now=ledger.now, allowance=DEFAULT_ALLOWANCE)
    waiting = begun_late(ledger, [one.scheduler_id])
    ledger.succeeded(again)
    over = begun_late(ledger, [one.scheduler_id])

    assert [list(page.found) for page in (waiting, over)] == [[], []]


def test_skips_late_starts_and_crashes_are_found(ledger: Ledger) -> None:
    ids = watched(ledger, "slow")
    [slow] = ids
    waiting = claimed_of(ledger, ids)
    ledger.clock.advance(timedelta(minutes=10))

    late = begun_late(ledger, ids)
    skips = ledger.events.skips(ids, since=ledger.now - DAY, after=0, limit=9)
    ledger.finish(ledger.started(waiting[0]), Quarantine("crashed"), CRASH)
    over = begun_late(ledger, ids)
    [pill] = bad_ends(ledger)

    assert (ids[slow], [one.id for one in late.found]) == ("slow", [waiting[0].id])
    assert (skips, over) == (Page(found=[], next=None), Page(found=[], next=None))
    assert (pill.kind, events.bad_end(pill).kind) == ("quarantined", "quarantined")


def test_arrivals_are_found_page_by_page_whatever_became_of_their_runs(ledger: Ledger) -> None:
    ids = watched(ledger, "busy", overlap=OverlapPolicy.SKIP)
    claimed = list[Execution]()
    for ends in (True, False, False):  # the last instant is skipped: the run before is not over
        runs = claimed_of(ledger, ids)
        claimed += runs
        if ends:
            ledger.finished(runs[0], FOR_GOOD)

    first = arrivals(ledger, ids, limit=1)
    assert first.next is not None
    second = arrivals(ledger, ids, after=first.next)
    ledger.clock.advance(HOUR - MINUTE)
    of_the_last_hour = arrivals(ledger, ids)
    ledger.clock.advance(SECOND)
    too_old = arrivals(ledger, ids)  # though the run is not over

    assert [one.id for one in (*first.found, *second.found)] == [one.id for one in claimed]
    assert (len(claimed), second.next) == (2, None)
    assert [one.id for one in of_the_last_hour.found] == [claimed[1].id]
    assert list(too_old.found) == []


def test_only_a_due_instant_arrives(ledger: Ledger) -> None:
    ids = watched(ledger, "report")
    [id_] = ids
    [due] = claimed_of(ledger, ids)
    name = UUID(int=7)
    others = [manual_key(name), start_key(name), "boot-x", alive_key(1)]
    for key in (*others, backfill_key(ledger.now)):
        ledger.run_now(id_, key)

    assert [one.id for one in arrivals(ledger, ids).found] == [due.id]


def test_a_late_start_that_ended_while_nobody_looked_is_found_and_no_start_in_time(
    ledger: Ledger,
) -> None:
    ids = watched(ledger, "slow")
    runs = []
    for wait in (SECOND, 3 * MINUTE, SECOND):
        [run] = claimed_of(ledger, ids)
        ledger.clock.advance(wait)
        runs.append(ledger.succeeded(run))
    ledger.clock.advance(timedelta(hours=5))

    first = begun_late(ledger, ids, limit=1)
    assert first.next is not None
    second = begun_late(ledger, ids, after=first.next)
    forgotten = begun_late(ledger, ids, ago=MINUTE)

    assert (first.found, first.next) == ([], runs[0].id)
    assert [one.id for one in second.found] == [runs[1].id]
    assert list(forgotten.found) == []


def test_what_is_due_is_counted_and_taken_by_its_kind(ledger: Ledger) -> None:
    def row(number: int, kind: EventKind, name: str) -> OutboxRow:
        event = attrs.evolve(trial(name, now=ledger.now, id_=str(number)), kind=kind)
        return OutboxRow.of(event, name, source="shop", now=ledger.now)

    rows = [row(number, EventKind.FAILED, "hook") for number in range(3)]
    rows += [row(3, EventKind.ALERT, "hook"), row(4, EventKind.ALERT, "mail")]
    ledger.events.add(rows, now=ledger.now)

    def pending(most: int = 9, source: str = "shop") -> Mapping[str, int]:
        return ledger.events.pending("hook", source=source, due_by=ledger.now, most=most)

    before, few, of_others = pending(), pending(2), pending(source="other")
    taken = take(ledger, "hook", limit=2, kind=EventKind.FAILED)

    assert (before, sum(few.values()), of_others) == ({"failed": 3, "alert": 1}, 2, {})
    assert [one.event_key for one in taken] == ["test:0", "test:1"]
    assert pending() == {"failed": 1, "alert": 1}


def test_who_was_given_up_is_told_anew_once_a_while_has_passed(ledger: Ledger) -> None:
    event = trial("ops", now=ledger.now, id_="x")
    changed = attrs.evolve(event, data={"value": 138})
    names = ("hook", "mail", "old")
    rows = [OutboxRow.of(event, name, source=SHOP, now=ledger.now) for name in names]
    ledger.events.add(rows, now=ledger.now)
    for name, state in (("hook", OutboxState.GIVEN_UP), ("mail", OutboxState.DELIVERED)):
        [mine] = take(ledger, name)
        assert ledger.events.settle(mine, state, now=ledger.now, error="410 Gone")
    ledger.clock.advance(SECOND)
    expire(ledger, kept=DAY)  # the old one
    ledger.clock.advance(HOUR)

    def anew(_: int = 0, *, targets: Collection[str] = names) -> int:
        now = ledger.now
        rows = [OutboxRow.of(changed, name, source=SHOP, now=now) for name in targets]
        return ledger.events.tell_anew(rows, before=now - HOUR, now=now)

    of_others, early = anew(targets=["mail", "none"]), anew(targets=["old"])
    answers = at_once(4, anew)
    [again] = take(ledger, "hook")

    assert (of_others, early, sum(answers)) == (0, 0, 1)
    assert (again.tries, again.occurred_at, again.finished_at) == (1, ledger.now, None)
    assert again.payload == changed.document
    ledger.clock.advance(SECOND)
    assert anew() == 1
    assert [row.target for row in take(ledger, "old")] == ["old"]
    assert take(ledger, "mail") == []


def test_who_was_told_is_found_by_how_the_key_of_an_event_begins(ledger: Ledger) -> None:
    event = trial("ops", now=ledger.now, id_="x:1")
    given = {"test:x:0a": ("hook", "mail"), "test:x:ff": ("hook",), "test:y:0a": ("hook",)}
    came = {"hook": OutboxState.DELIVERED.value, "mail": OutboxState.GIVEN_UP.value}
    rows = {name: OutboxRow.of(event, name, source="s", now=ledger.now) for name in came}
    wanted = [
        attrs.evolve(rows[name], event_key=key, state=came[name])
        for key, names in given.items()
        for name in names
    ]
    ledger.events.add(wanted, now=ledger.now)

    found = ledger.events.deliveries(["test:x:"])

    assert sorted((row.event_key, row.target) for row in found) == [
        ("test:x:0a", "hook"),
        ("test:x:0a", "mail"),
        ("test:x:ff", "hook"),
    ]


def test_what_a_target_fails_with_is_found_that_was_put_off_the_longest(ledger: Ledger) -> None:
    def add(id_: str) -> None:
        event = trial("hook", now=ledger.now, id_=id_)
        row = OutboxRow.of(event, "hook", source=SHOP, now=ledger.now)
        ledger.events.add([row], now=ledger.now)

    add("first")
    add("second")
    none = ledger.events.failing("hook", source=SHOP)
    for row, seconds in zip(take(ledger, "hook"), (9, 5), strict=True):
        again = ledger.now + seconds * SECOND
        ledger.events.settle(
            row, OutboxState.WAITING, now=ledger.now, next_try_at=again, error=f"{seconds}"
        )
    add("new")

    found = ledger.events.failing("hook", source=SHOP)

    assert none is None
    assert found is not None
    assert (found.tries, found.last_error, found.next_try_at) == (1, "9", ledger.now + 9 * SECOND)
    assert ledger.events.failing("hook", source="other") is None
    assert ledger.events.failing("mail", source=SHOP) is None


def test_runs_that_run_or_ended_lately_are_found_with_how_they_ended(ledger: Ledger) -> None:
    wrote = Captured(head="the last words", bytes=14)
    good = ledger.finished(ledger.claimed("good"), Complete(), attrs.evolve(SUCCESS, stdout=wrote))
    noisy = attrs.evolve(FAILURE, stdout=Captured(head="out", bytes=3), stderr=wrote)
    bad = ledger.finished(ledger.claimed("bad"), FOR_GOOD, noisy)
    quiet = ledger.running("quiet")
    waiting = ledger.claimed("waiting")
    ids = {run.scheduler_id for run in (good, bad, quiet, waiting)}

    def found(ago: timedelta) -> list[int]:
        page = ledger.events.begun_or_ended(ids, since=ledger.now - ago, after=0, limit=9)
        return [run.id for run in page.found]

    ends = ledger.events.run_ends([good.id, bad.id])
    soon = found(10 * MINUTE)
    ledger.clock.advance(HOUR)

    assert soon == [good.id, bad.id, quiet.id]
    assert found(MINUTE) == [quiet.id]
    words = "the last words"
    assert ends[good.id] == RunEnd(exit_code=0, stdout=words, node="ant")
    assert ends[bad.id] == RunEnd(exit_code=1, stderr=words, stdout="out", node="ant")


# Pings


PING = Target(
    name="schedules.pinged:ping",
    means=ByPing(address=WebAddress.parse("https://hc.example/uuid")),
    events=frozenset(),
)
PINGS = Subscriptions(source=SHOP, pings={"pinged": PING})


def test_the_start_of_what_runs_is_pinged_before_its_end_and_each_once(ledger: Ledger) -> None:
    run = ledger.running("pinged")
    ledger.schedules.save([draft("pinged")], source=SHOP, now=ledger.now)
    ant, bee = Pinger(ledger.events), Pinger(ledger.events)

    for pinger in (ant, bee, ant):
        pinger.look(PINGS, (), ledger.now)
    begun = [row.event_key.split(":")[1] for row in ledger.events.rows(limit=9)]
    ledger.finish(run, Complete(), SUCCESS)
    for pinger in (bee, ant, bee):
        pinger.look(PINGS, (), ledger.now)

    assert begun == ["start"]
    assert [row.event_key.split(":")[1] for row in take(ledger, PING.name)] == ["start", "end"]


def test_a_retry_is_no_start_though_nobody_has_told_of_the_first(ledger: Ledger) -> None:
    waiting = ledger.finished(ledger.claimed("pinged"), IN_30_S)
    ledger.schedules.save([draft("pinged")], source=SHOP, now=ledger.now)

    ledger.started(waiting)
    Pinger(ledger.events).look(PINGS, (), ledger.now)

    assert ledger.events.rows(limit=9) == []
