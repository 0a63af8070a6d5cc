from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhare.domain.nodes import PRESUMED_DEAD_AFTER
from cronhare.domain.reading import Invalid
from cronhare.domain.retries.limits import (
    LONGEST_DEFERRAL,
    PARTS,
    BreakerPolicy,
    Budget,
    BudgetPolicy,
    OnExhausted,
    as_asked,
    ask_budget,
)
from cronhare.domain.retries.outcome import (
    LONGEST_RETRY_AFTER,
    Crash,
    CrashPolicy,
    Ending,
    ErrorClass,
    Outcome,
    TaskError,
    asked_wait,
    classified,
    classify,
    read_error_rules,
    read_retry_after,
    snoozed,
)
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.retries.retry import (
    LONGEST_AWAY,
    Cancel,
    Complete,
    Fail,
    GiveBack,
    Hold,
    Holder,
    Quarantine,
    RetryAfter,
    Verdict,
    await_task,
    crashes_of,
    decide,
    give_back,
    was_snoozed,
)

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)

REFUSED = TaskError(message="connection refused", code="ECONNREFUSED")


def decided(
    ending: Ending,
    *,
    error: TaskError | None = REFUSED,
    deaths: int = 0,
    policy: RetryPolicy = RetryPolicy(),  # noqa: B008 - a frozen value
    crashed: tuple[timedelta, ...] = (),
    crash_policy: CrashPolicy = CrashPolicy(),  # noqa: B008 - likewise
    before: Ending = Ending.LOST,
    random_fraction: float = 0.0,
    now: datetime = NOW,
    **others: Any,  # noqa: ANN401 - of `decide`
) -> Verdict:
    return decide(
        Outcome(ending=ending, error=error),
        deaths=deaths,
        policy=policy,
        crash_policy=crash_policy,
        crashes=[*(Crash(now - ago, before) for ago in crashed), Crash(now, ending)],
        now=now,
        random_fraction=random_fraction,
        **others,
    )


@pytest.mark.parametrize(
    ("asked", "waits"),
    [(30 * SECOND, 30 * SECOND), (0 * SECOND, SECOND), (8 * DAY, 7 * DAY)],
)
def test_a_snooze_costs_no_attempt_and_has_bounds(asked: timedelta, waits: timedelta) -> None:
    verdict = decided(Ending.SNOOZED, error=snoozed(asked).error, deaths=3)

    assert isinstance(verdict, GiveBack)
    assert verdict.delay == waits
    assert was_snoozed(verdict.reason)


def test_nothing_is_snoozed_beyond_the_time_at_which_it_expires() -> None:
    asked = snoozed(30 * SECOND).error

    in_time = decided(Ending.SNOOZED, error=asked, expires_at=NOW + 30 * SECOND)
    too_late = decided(Ending.SNOOZED, error=asked, expires_at=NOW + 29 * SECOND)

    assert isinstance(in_time, GiveBack)
    assert too_late == Fail("snoozed for 30s, which is after it expires: 2026-03-02 12:00:29Z")


def test_by_default_a_task_runs_four_times_after_30_60_and_120_seconds() -> None:
    verdicts = [decided(Ending.FAILED, deaths=deaths) for deaths in range(4)]

    assert verdicts == [
        RetryAfter(30 * SECOND, "retry 1/3: connection refused"),
        RetryAfter(60 * SECOND, "retry 2/3: connection refused"),
        RetryAfter(120 * SECOND, "retry 3/3: connection refused"),
        Fail("connection refused"),
    ]


FREE = GiveBack("connection refused, which costs no attempt")


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (decided(Ending.SUCCEEDED, error=None, deaths=99), Complete()),
        (decided(Ending.CANCELLED), Cancel()),
        (decided(Ending.FAILED, policy=RetryPolicy(attempts=1)), Fail("connection refused")),
        (decided(Ending.FAILED, deaths=99), Fail("connection refused")),
        (decided(Ending.CRASHED, deaths=3), Fail("connection refused")),
        *((decided(Ending.INTERRUPTED, deaths=deaths), FREE) for deaths in (0, 3, 99)),
        (decided(Ending.TIMED_OUT, error=None), RetryAfter(30 * SECOND, "retry 1/3: timed-out")),
        (decided(Ending.LOST, error=None), RetryAfter(30 * SECOND, "retry 1/3: lost")),
        (
            decided(Ending.FAILED, crashed=(SECOND, SECOND)),
            RetryAfter(30 * SECOND, "retry 1/3: connection refused"),
        ),
        (
            decided(Ending.FAILED, error=TaskError(message="no", error_class=ErrorClass.TRANSIENT)),
            RetryAfter(30 * SECOND, "retry 1/3: no"),
        ),
        (
            decided(Ending.FAILED, error=TaskError(message="no", error_class=ErrorClass.PERMANENT)),
            Fail("no"),
        ),
    ],
)
def test_each_ending_has_its_verdict(verdict: Verdict, expected: Verdict) -> None:
    assert verdict == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ECONNREFUSED", ErrorClass.TRANSIENT),
        ("ETIMEDOUT", ErrorClass.TRANSIENT),
        ("ENOTFOUND", ErrorClass.TRANSIENT),
        ("AUTH_INVALID", ErrorClass.PERMANENT),
        ("RESOURCE_NOT_FOUND", ErrorClass.PERMANENT),
        ("EANYTHING", ErrorClass.UNKNOWN),
        (None, ErrorClass.UNKNOWN),
    ],
)
def test_the_original_error_codes_are_classified(code: str | None, expected: ErrorClass) -> None:
    assert classify(code) is expected


@pytest.mark.parametrize("ending", [Ending.CRASHED, Ending.LOST])
def test_the_third_crash_within_five_minutes_is_a_poison_pill(ending: Ending) -> None:
    verdict = decided(ending, crashed=(299 * SECOND, SECOND))
    too_old = decided(ending, crashed=(300 * SECOND, SECOND))

    assert isinstance(verdict, Quarantine)
    assert verdict.reason == "crashed 3 times within 300 s"
    assert [NOW - crash.at for crash in verdict.crashes] == [299 * SECOND, SECOND, 0 * SECOND]
    assert isinstance(too_old, RetryAfter)


def test_an_endless_loop_that_its_timeout_ends_is_a_crash_unless_it_is_told_not_to_be() -> None:
    crashed, without = (2 * SECOND, SECOND), CrashPolicy(timeouts=False)

    by_default = decided(Ending.TIMED_OUT, crashed=crashed, before=Ending.TIMED_OUT)
    told = decided(Ending.TIMED_OUT, crashed=crashed, before=Ending.TIMED_OUT, crash_policy=without)
    after_it = decided(
        Ending.CRASHED, crashed=crashed, before=Ending.TIMED_OUT, crash_policy=without
    )

    assert isinstance(by_default, Quarantine)
    assert isinstance(told, RetryAfter)
    assert isinstance(after_it, RetryAfter)


# What was not tried


def given_back(attempt: int, policy: RetryPolicy) -> GiveBack:
    return give_back("it came astray", attempt=attempt, policy=policy, random_fraction=0.0)


def test_what_comes_astray_beyond_the_retries_waits_longer_each_time() -> None:
    delays = [given_back(attempt, RetryPolicy()).delay for attempt in range(1, 10)]

    waits = [30 * SECOND, 60 * SECOND, 120 * SECOND, 240 * SECOND]
    assert delays == [timedelta(0)] * 3 + waits + [LONGEST_AWAY] * 2


def test_a_missing_task_is_waited_for_until_the_run_expires_and_ten_minutes_at_most() -> None:
    said = "waits for a worker that has its task, until 2026-03-02 12:10:00Z: no task new"

    over = NOW + timedelta(minutes=10)
    assert await_task("no task new", said=said, now=over, expires_at=None) is None
    assert await_task("no task new", said=None, now=NOW, expires_at=NOW) is None


@pytest.mark.parametrize(("restarts", "verdict"), [(3, GiveBack), (4, Quarantine)])
def test_more_restarts_than_the_limit_of_crashes_quarantine(
    restarts: int, verdict: type[Verdict]
) -> None:
    ends = [
        (Crash(NOW - place * 40 * SECOND, Ending.INTERRUPTED), 31 * SECOND)
        for place in range(restarts)
    ]
    found = CrashPolicy().restarts(ends, grace=30 * SECOND, now=NOW)

    assert isinstance(decided(Ending.INTERRUPTED, restarts=found), verdict)


@pytest.mark.parametrize(
    ("ran", "ago", "grace", "counts"),
    [
        (64, 0, 30, True),
        (65, 0, 30, False),  # twice the grace, and 5 s to be killed in: a long task
        (10, 299, 30, True),
        (10, 300, 30, False),
        (200, 819, 100, True),  # four rounds of so long a grace are longer than 300 s
        (200, 820, 100, False),
        (10, -600, 30, False),  # noted by a clock that was ahead
    ],
)
def test_a_restart_is_an_interruption_soon_after_the_start_of_late(
    ran: int, ago: int, grace: int, counts: bool
) -> None:
    one = (Crash(NOW - ago * SECOND, Ending.INTERRUPTED), ran * SECOND)

    found = CrashPolicy().restarts([one], grace=grace * SECOND, now=NOW)

    assert bool(found) == counts


# Which holders of a message that came again it has ended; C20 in docs/compatibility.md


HERE, ELSEWHERE = "0a1b2c3d", "11111111"


def holder(pid: int, place: str, boot: str = "first") -> Holder:
    return Holder(node=f"ant-{pid}-{place}e4f56071", host="ant", boot=boot)


US = holder(7, HERE)
LIVING = 8


def counts(of: Holder, *, seen_at: datetime | None) -> bool:
    hold = Hold(holder=of, at=NOW - SECOND, seen_at=seen_at)
    found = crashes_of([hold], us=US, now=NOW, policy=CrashPolicy(), lives=lambda pid: pid == 8)
    return bool(found)


@pytest.mark.parametrize("seen_at", [None, NOW, NOW - PRESUMED_DEAD_AFTER - SECOND])
def test_a_pid_of_our_own_place_tells_for_certain(seen_at: datetime | None) -> None:
    assert not counts(holder(LIVING, HERE), seen_at=seen_at)
    assert counts(holder(9, HERE), seen_at=seen_at)
    assert counts(Holder(node="ant-7-0a1b2c3de4f56072", host="ant", boot="first"), seen_at=seen_at)


def test_elsewhere_who_reports_itself_lives() -> None:
    assert not counts(holder(LIVING, ELSEWHERE), seen_at=NOW - PRESUMED_DEAD_AFTER)
    assert not counts(holder(7, ELSEWHERE), seen_at=NOW - SECOND)
    assert counts(holder(LIVING, ELSEWHERE), seen_at=NOW - PRESUMED_DEAD_AFTER - SECOND)
    assert counts(holder(LIVING, ELSEWHERE), seen_at=None)


def test_what_a_reboot_ended_never_counts() -> None:
    assert not counts(holder(9, ELSEWHERE, boot="before"), seen_at=None)


ASKED_AT = datetime(2025, 12, 12, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize("value", [120, 120.0, "120", " 120 ", "120.0"])
def test_seconds_are_a_number_or_its_text(value: object) -> None:
    assert read_retry_after(value) == 120 * SECOND


@pytest.mark.parametrize(
    "text",
    [
        "Fri, 12 Dec 2025 08:02:00 GMT",  # the three forms of RFC 9110, section 5.6.7
        "Friday, 12-Dec-25 08:02:00 GMT",
        "Fri Dec 12 08:02:00 2025",
    ],
)
def test_each_form_of_an_http_date_is_a_moment(text: str) -> None:
    assert read_retry_after(text) == ASKED_AT + 120 * SECOND


ODD: list[object] = [
    *(None, True, -1, "-1", "soon", "", "1e9", "١٢", float("nan"), float("inf"), 10**400),
    *("9" * 41, "Fri, 99 Dec 2025 08:02:00 GMT", [120], {"seconds": 120}, 10**10),
]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_what_is_no_wait_is_none(value: object) -> None:
    assert read_retry_after(value) is None


@given(st.text(max_size=60))
def test_no_text_is_a_fault_of_ours(text: str) -> None:
    read_retry_after(text)


def limited(**asked: timedelta | datetime) -> TaskError:
    return TaskError(message="429", error_class=ErrorClass.RATE_LIMITED, **asked)  # type: ignore[arg-type]


def after_asking(asked: TaskError, chance: float) -> RetryAfter:
    verdict = decided(Ending.FAILED, error=asked, now=ASKED_AT, random_fraction=chance)
    assert isinstance(verdict, RetryAfter)
    return verdict


def test_what_is_asked_for_counts_from_now_and_the_later_wins() -> None:
    asked = limited(retry_after=60 * SECOND, retry_at=ASKED_AT + 90 * SECOND)

    assert asked_wait(asked, now=ASKED_AT) == 90 * SECOND
    assert asked_wait(asked, now=ASKED_AT + 60 * SECOND) == 60 * SECOND
    assert asked_wait(TaskError(message="no"), now=ASKED_AT) == timedelta(0)


@pytest.mark.parametrize("chance", [0.0, 0.99])
@pytest.mark.parametrize(
    "asked",
    [
        {"retry_after": read_retry_after(36_776_647)},
        {"retry_at": ASKED_AT + timedelta(days=425)},
        {"retry_after": timedelta(hours=23)},
    ],
)
def test_no_answer_of_a_server_stops_a_schedule_for_more_than_a_day(
    asked: dict[str, timedelta], chance: float
) -> None:
    verdict = after_asking(limited(**asked), chance)

    assert verdict.delay <= LONGEST_RETRY_AFTER == timedelta(hours=24)


@given(
    st.timedeltas(timedelta(0), timedelta(hours=20)),
    st.floats(0, 1, exclude_max=True),
    st.booleans(),
)
def test_a_retry_is_never_earlier_than_asked_and_at_most_a_fifth_later(
    wait: timedelta, chance: float, is_date: bool
) -> None:
    asked = limited(retry_at=ASKED_AT + wait) if is_date else limited(retry_after=wait)

    verdict = after_asking(asked, chance)

    assert max(30 * SECOND, wait) <= verdict.delay
    assert verdict.delay <= max(30 * SECOND, wait * 1.2 + timedelta(microseconds=1))


RULES = read_error_rules(
    {
        "transient": ["ECONNRESET", "exit:75", "AUTH_INVALID"],
        "permanent": ["KeyError", "exit:1", "LookupError"],
        "rate-limited": ["TooManyRequests"],
    }
)


def class_of(exit_code: int = 1, **error: object) -> ErrorClass:
    given_error = TaskError(message="no", **error)  # type: ignore[arg-type]
    outcome = Outcome(ending=Ending.FAILED, exit_code=exit_code, error=given_error)
    found = classified(outcome, RULES).error
    assert found is not None
    return found.error_class


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": "ECONNRESET"}, ErrorClass.TRANSIENT),
        ({"types": ("KeyError", "LookupError")}, ErrorClass.PERMANENT),
        ({"exit_code": 75}, ErrorClass.TRANSIENT),
        ({"code": "ECONNRESET", "types": ("KeyError",)}, ErrorClass.TRANSIENT),  # the nearest
        ({"code": "AUTH_INVALID", "error_class": ErrorClass.PERMANENT}, ErrorClass.TRANSIENT),
    ],
)
def test_an_error_is_known_by_code_exception_or_exit_status(
    error: dict[str, object], expected: ErrorClass
) -> None:
    assert class_of(**error) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (3, "a table is expected, with transient, permanent, rate-limited"),
        ({"fatal": []}, "'fatal' is no class of errors; there are transient, permanent"),
        ({"transient": "ECONNRESET"}, "transient: a list of at most 100 texts is expected"),
        ({"transient": ["exit:0"]}, "'exit:0' is not a code such as"),
        ({"transient": ["E"], "permanent": ["E"]}, "permanent: 'E' is transient already"),
    ],
)
def test_a_table_that_cannot_be_says_what_is_wrong(table: object, fault: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_error_rules(table)

    (only,) = refused.value.faults
    assert fault in str(only)


# Budgets of queues, breakers of tasks


MINUTE = timedelta(minutes=1)
AT_ONCE = RetryAfter(timedelta(0), "retry 1/3: the server did not answer")


def per_minute(most: int, on_exhausted: OnExhausted = OnExhausted.DEFER) -> BudgetPolicy:
    return BudgetPolicy(most=most, window=MINUTE, on_exhausted=on_exhausted)


def new(policy: BudgetPolicy) -> Budget:
    return as_asked("reports", None, policy, now=NOW)


def places(policy: BudgetPolicy, asked_at: list[datetime]) -> tuple[Budget, list[datetime]]:
    """Ask at each of these moments for a retry at once; give when each was granted."""
    budget, found = new(policy), []
    for now in asked_at:
        answer = ask_budget(budget, policy, AT_ONCE, now=now)
        assert isinstance(answer.verdict, RetryAfter)
        budget = answer.budget
        found.append(now + answer.verdict.delay)
    return budget, found


def is_kept(granted: list[datetime], policy: BudgetPolicy) -> bool:
    ordered = sorted(granted)
    return all(
        after - before >= policy.window
        for before, after in zip(ordered, ordered[policy.most :], strict=False)
    )


def test_a_wave_is_spread_at_exactly_the_rate() -> None:
    _, granted = places(BudgetPolicy(), [NOW] * 250)

    assert granted == [NOW] * 100 + [NOW + MINUTE] * 100 + [NOW + 2 * MINUTE] * 50


def test_a_place_farther_away_than_a_week_is_none() -> None:
    policy = BudgetPolicy(most=1, window=timedelta(days=1))
    budget, _ = places(policy, [NOW] * (LONGEST_DEFERRAL.days + 1))

    assert isinstance(ask_budget(budget, policy, AT_ONCE, now=NOW).verdict, Fail)


def test_a_larger_limit_lets_nobody_in_before_the_places_that_are_given() -> None:
    spent, granted = places(per_minute(2), [NOW] * 20)

    larger = as_asked("reports", spent, per_minute(5), now=NOW + 30 * SECOND)
    answer = ask_budget(larger, per_minute(5), AT_ONCE, now=NOW + 30 * SECOND)

    assert answer.verdict.reason.startswith("retry 1/3")
    assert isinstance(answer.verdict, RetryAfter)
    assert NOW + 30 * SECOND + answer.verdict.delay == granted[-1]


@pytest.mark.parametrize("most", [3, PARTS + 5])
@settings(max_examples=30)
@given(
    gaps=st.lists(st.integers(0, 40_000), min_size=1, max_size=30),
    bursts=st.lists(st.integers(1, 8), min_size=30, max_size=30),
)
def test_no_window_ever_holds_more_than_the_limit(
    most: int, gaps: list[int], bursts: list[int]
) -> None:
    policy = BudgetPolicy(most=most, window=timedelta(seconds=most))
    now, asked = NOW, []
    for gap, burst in zip(gaps, bursts, strict=False):
        now += timedelta(milliseconds=gap)
        asked += [now] * burst

    budget, granted = places(policy, asked)

    assert is_kept(granted, policy)
    assert len(budget.grants) <= 2 * PARTS


@given(most=st.integers(1, 1_000), crowd=st.integers(1, 1_500))
@settings(max_examples=60, deadline=None)
def test_a_crowd_is_staggered_within_the_rate(most: int, crowd: int) -> None:
    policy, budget, granted = per_minute(most), new(per_minute(most)), list[datetime]()
    for _ in range(crowd):
        place = budget.staggered_at(NOW)
        budget = budget.granted(place, now=NOW)
        granted.append(place)

    later = [place for place in granted if place > NOW]
    apart = Counter(later).values()
    assert granted == sorted(granted)
    assert is_kept(granted, policy)
    assert not apart or max(apart) <= -(-most // PARTS)
    assert granted[-1] - NOW <= 2 * (crowd // most) * MINUTE


def test_at_half_of_ten_attempts_or_with_fewer_than_ten_it_stays_closed() -> None:
    trips = BreakerPolicy().trips

    assert not any(trips(*ends) for ends in [(5, 5), (9, 0), (1, 9)])
    assert all(trips(*ends) for ends in [(6, 4), (10, 0), (51, 49)])
