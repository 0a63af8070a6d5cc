"""Of what people are alerted: of the ledger, of what works on it, and of a schedule."""

import re
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest

from cronhare.domain.events.alerts import CLEAR_AFTER, Alert, raised
from cronhare.domain.events.judging import (
    ALERTED_AFTER,
    FEWEST_RUNS,
    FEWEST_USUAL,
    GROWING,
    QueueSigns,
    RunSigns,
    ScheduleSigns,
    Signs,
    SystemSigns,
    judge,
    judge_schedule,
    judge_system,
)
from cronhare.domain.events.rules import ABOUT, AlertConditions, AlertPolicy, Deadline, Rule
from cronhare.domain.nodes import DISCONNECTED_AFTER, PRESUMED_DEAD_AFTER, NodeReport, served
from tests.unit.executions import NOON, execution


def alerts(policy: AlertPolicy | None = None, **signs: Any) -> dict[str, Alert]:  # noqa: ANN401
    return {each.rule: each for each in judge(Signs(**signs), policy or AlertPolicy(), NOON)}


@pytest.mark.parametrize(
    ("unresolved", "rules"),
    [
        (5, []),
        (6, [Rule.FAILED]),
        (10, [Rule.FAILED]),
        (11, [Rule.FAILED, Rule.GROWING]),
        (100, [Rule.FAILED, Rule.GROWING]),
        (101, [Rule.FAILED, Rule.GROWING, Rule.CRITICAL]),
    ],
)
def test_failures_alert_above_the_original_numbers(unresolved: int, rules: list[Rule]) -> None:
    assert [*alerts(unresolved=unresolved)] == rules


def test_the_alert_is_the_original_one() -> None:
    found = alerts(unresolved=11)

    assert found[Rule.FAILED].data["alert"] == {
        "severity": "high",
        "message": "11 failed cron tasks",
        "task": None,
    }
    assert found[Rule.GROWING].data["deadLetterQueue"] == {
        "severity": "warning",
        "title": GROWING,
        "message": "DLQ has 11 jobs (threshold: 10)",
        "depth": 11,
        "threshold": 10,
        "runbook": "docs/operators.md: What failed, and of which schedule?",
    }
    assert GROWING == "Dead Letter Queue Growing"
    critical = alerts(unresolved=101)[Rule.CRITICAL].data["deadLetterQueue"]
    assert critical["severity"] == "critical"


def test_a_task_that_is_retried_too_often_is_named() -> None:
    worst = execution(deaths=3)

    alert = alerts(worst=worst, too_often=2)[Rule.RETRIES]

    assert "was retried 3 times (threshold: 2), and 1 other likewise" in alert.message
    assert alert.data["alert"]["severity"] == "high"
    assert alert.data["alert"]["task"]["scheduler_id"] == worst.scheduler_id
    assert alert.data["executionId"] == worst.id
    assert (alert.key, alert.schedule, alert.told_as_of) == ("retries", worst.schedule_name, None)
    assert raised(alert, source="a").schedule == worst.schedule_name


def test_a_rate_of_retries_alerts_above_a_fifth_of_enough_runs() -> None:
    assert alerts(runs=FEWEST_RUNS - 1, retried=9) == {}
    assert alerts(runs=10, retried=2) == {}
    alert = alerts(runs=10, retried=3)[Rule.RETRY_RATE]
    assert alert.message == "3 of 10 runs were retried: 30.0% (threshold: 20.0%)"


def test_what_is_off_alerts_of_nothing() -> None:
    off = AlertPolicy(failed=0, warning=0, critical=0, retries=0, retry_rate=0)
    signs = {"unresolved": 1_000, "runs": 10, "retried": 10, "worst": execution(), "too_often": 1}

    assert alerts(off, **signs) == {}


def test_each_rule_has_a_title_and_a_runbook_that_is_there() -> None:
    assert ABOUT.keys() == {*Rule}
    for _, _, runbook in ABOUT.values():
        page, heading = runbook.split(": ")
        text = (Path(__file__).parents[4] / page).read_text()
        assert re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE), runbook


MINUTE = timedelta(minutes=1)


def node(name: str = "web-1-7", *, seen: datetime = NOON, **changes: Any) -> NodeReport:  # noqa: ANN401
    given: dict[str, Any] = {"role": "worker", "host": "web-1", "started_at": NOON - MINUTE}
    return NodeReport(name=name, version="1", seen_at=seen, **{**given, **changes})


def messages(**signs: Any) -> dict[str, str]:  # noqa: ANN401
    found = [*judge_system(SystemSigns(**signs), NOON)]
    for each in found:
        assert each.data["alert"]["severity"] == ABOUT[each.rule].severity
    return {f"{each.rule}:{each.subject}": each.message for each in found}


def test_what_is_due_and_not_claimed_alerts_whether_or_not_a_scheduler_reports() -> None:
    late = NOON - ALERTED_AFTER - timedelta(seconds=1)

    assert messages(earliest_due=NOON - ALERTED_AFTER) == {}
    alone = messages(earliest_due=late)["scheduler:"]
    assert alone.endswith("and no scheduler reports itself")
    there = messages(earliest_due=late, nodes=[node(role="scheduler")])["scheduler:"]
    assert there.endswith("though 1 scheduler reported lately")


def test_what_waits_for_the_broker_or_for_a_worker_alerts() -> None:
    signs = QueueSigns(runs=3, since=NOON - 5 * MINUTE, execution=106)
    older = attrs.evolve(signs, since=NOON - 9 * MINUTE, execution=105)
    nodes = [node(queues=("a", "b"))]

    said = messages(
        unsent={"a": signs, "b": older}, unserved={"cron_scheduler.mail": signs}, nodes=nodes
    )

    assert said["unsent:"].startswith(
        "6 runs (execution 105) for a, b could not be handed to the broker since 2026"
    )
    assert "in the queue cron_scheduler.mail since" in said["queue:cron_scheduler.mail"]


@pytest.mark.parametrize("queue", ["cron_scheduler.misspelt", "cron_standalone.pump"])
def test_what_has_no_worker_waits_for_that_and_hides_no_outage_of_the_broker(queue: str) -> None:
    signs = QueueSigns(runs=1, since=NOON - 5 * MINUTE, execution=106)

    [alone] = messages(unsent={queue: signs}).items()
    [served_] = messages(unsent={queue: signs}, nodes=[node(queues=(queue,))])

    assert alone[0] == f"queue:{queue}"
    assert alone[1].startswith(f"1 run for the queue {queue} since ")
    assert alone[1].endswith("and no worker serves it")
    assert served_ == "unsent:"


def test_a_silent_node_alerts_until_another_takes_its_place() -> None:
    silent = node(seen=NOON - PRESUMED_DEAD_AFTER - timedelta(seconds=1))
    elsewhere = node("web-2-7", host="web-2", started_at=NOON)
    sibling = node("web-1-6", started_at=silent.seen_at - timedelta(seconds=1))
    successor = node("web-1-8", started_at=NOON)
    scheduler = node("web-1-9", role="scheduler", started_at=NOON)

    assert messages(nodes=[node()]) == {}
    assert [*messages(nodes=[silent, elsewhere, sibling, scheduler])] == ["node:web-1-7"]
    assert messages(nodes=[silent, successor]) == {}
    assert messages(nodes=[node(seen=NOON + 5 * MINUTE)]) == {}  # a clock that was ahead


def test_while_the_ledger_was_away_nobody_could_report_himself() -> None:
    seen = NOON - 2 * MINUTE
    dead = node(seen=seen)

    def judged(since: timedelta) -> list[str]:
        return [*messages(nodes=[dead, node("b", host="b")], watched_since=NOON - since)]

    assert judged(timedelta(seconds=45)) == []
    assert judged(timedelta(seconds=46)) == ["node:web-1-7"]
    assert served([node(queues=("a",), seen=seen)], NOON, watched_since=NOON) == {"a"}


def test_workers_that_are_cut_off_from_their_broker_serve_nothing_and_are_named() -> None:
    long_ago = NOON - DISCONNECTED_AFTER - timedelta(seconds=1)
    cut_off = node(queues=("a", "b"), consumed_at=long_ago)
    lately = node("b", queues=("b",), consumed_at=NOON - DISCONNECTED_AFTER)
    older = node("c", queues=("c",))  # which does not say
    nodes = [cut_off, lately, older]

    said = messages(nodes=nodes, unserved={"a": QueueSigns(runs=1, since=long_ago)})

    assert served(nodes, NOON) == {"b", "c"}
    assert said["queue:a"].endswith("and web-1-7 is cut off from the broker, or it is away")
    assert served(nodes, NOON, watched_since=NOON - MINUTE) == {"a", "b", "c"}


SECOND = timedelta(seconds=1)
UTC = ZoneInfo("UTC")
FIVE = Deadline(after=5 * MINUTE)


def run(due: datetime = NOON, **changes: Any) -> RunSigns:  # noqa: ANN401
    return RunSigns(id=7, due_at=due, **changes)


def of_schedule(conditions: AlertConditions, now: datetime, **signs: Any) -> list[Alert]:  # noqa: ANN401
    of = ScheduleSigns(scheduler_id=3, name="nightly", zone=UTC, **signs)
    found = [*judge_schedule(of, conditions, now, source="shop")]
    for each in found:
        assert each.data["alert"]["severity"] == ABOUT[each.rule].severity
    return found


@pytest.mark.parametrize(
    ("conditions", "off", "sign", "rule"),
    [
        (
            AlertConditions(not_started_by=FIVE),
            AlertConditions(not_started_by=Deadline()),
            "waiting",
            Rule.NOT_STARTED,
        ),
        (
            AlertConditions(not_finished_by=FIVE),
            AlertConditions(not_finished_by=Deadline()),
            "unfinished",
            Rule.NOT_FINISHED,
        ),
    ],
)
def test_a_run_alerts_that_has_not_begun_or_ended_by_its_time(
    conditions: AlertConditions, off: AlertConditions, sign: str, rule: Rule
) -> None:
    late = NOON + 5 * MINUTE + SECOND

    assert of_schedule(conditions, NOON + 5 * MINUTE, **{sign: run()}) == []
    [alert] = of_schedule(conditions, late, **{sign: run()})
    [unclaimed] = of_schedule(conditions, late, unclaimed=NOON)

    assert (alert.rule, alert.subject, alert.source, alert.scheduler_id) == (
        rule,
        "nightly",
        "shop",
        3,
    )
    assert (alert.data["executionId"], alert.data["alert"]["severity"]) == (7, "high")
    assert alert.message.startswith("nightly, due at 2026-")
    assert unclaimed.message.endswith("has not, nor claimed by a scheduler")
    assert alert.key == unclaimed.key
    assert of_schedule(off, late, **{sign: run()}) == []


@pytest.mark.parametrize(
    ("due", "by"),
    [
        (datetime(2026, 3, 28, 22, 0, tzinfo=UTC), datetime(2026, 3, 29, 4, 30, tzinfo=UTC)),
        (datetime(2026, 3, 29, 4, 29, tzinfo=UTC), datetime(2026, 3, 29, 4, 30, tzinfo=UTC)),
        (datetime(2026, 3, 29, 4, 30, tzinfo=UTC), datetime(2026, 3, 30, 4, 30, tzinfo=UTC)),
    ],
)
def test_a_time_of_day_is_the_next_one_on_the_schedules_clock(due: datetime, by: datetime) -> None:
    deadline = Deadline(time_of_day=time(6, 30))

    assert deadline.of(due, ZoneInfo("Europe/Berlin")) == by  # summer begins that night


def test_a_run_alerts_that_takes_much_longer_than_usual() -> None:
    conditions = AlertConditions(longer_than_usual=3)
    usual = [MINUTE] * FEWEST_USUAL
    begun = run(started_at=NOON)
    late = NOON + 3 * MINUTE + SECOND
    over = run(started_at=NOON, finished_at=late)

    assert of_schedule(conditions, NOON + 3 * MINUTE, running=begun, usual=usual) == []
    [alert] = of_schedule(conditions, late, running=begun, usual=usual)
    assert alert.message == "nightly runs for 3m1s, and its last 5 runs took 1m at the median"
    assert (alert.data["value"], alert.data["threshold"]) == (181, 180)
    assert of_schedule(conditions, late, running=begun, usual=usual[1:]) == []
    assert len(of_schedule(conditions, late + CLEAR_AFTER, last=over, usual=usual)) == 1
    assert of_schedule(conditions, late + CLEAR_AFTER + SECOND, last=over, usual=usual) == []
    blink = run(started_at=NOON)
    assert of_schedule(conditions, NOON + 9 * SECOND, running=blink, usual=[SECOND / 10] * 5) == []


def test_a_good_run_alerts_that_wrote_too_little() -> None:
    conditions = AlertConditions(least_output=100)
    last: dict[str, Any] = {"started_at": NOON, "finished_at": NOON, "has_succeeded": True}

    [alert] = of_schedule(conditions, NOON, last=run(**last, output=99))
    assert alert.message == "nightly wrote 99 bytes, and is to write 100 at least"
    assert of_schedule(conditions, NOON, last=run(**last, output=100)) == []
    assert of_schedule(conditions, NOON, last=run(**last, output=None)) == []
    assert (
        of_schedule(conditions, NOON, last=run(**{**last, "has_succeeded": False}, output=0)) == []
    )
