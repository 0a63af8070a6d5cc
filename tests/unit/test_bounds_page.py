"""docs/bounds.md says what the code holds: each number on the page comes from a constant."""

import re
from datetime import timedelta
from itertools import accumulate
from pathlib import Path

import pytest

from cronhare.adapters import addresses as servers
from cronhare.adapters.crontab import reader
from cronhare.adapters.http import client as http_client
from cronhare.adapters.jobs import apps, calendars, targets
from cronhare.adapters.jobs import reader as jobs_limits
from cronhare.adapters.process import attempt, output
from cronhare.adapters.process import messages as ipc
from cronhare.adapters.rabbitmq.topology import DELIVERY_LIMIT
from cronhare.adapters.sql import database
from cronhare.adapters.sql.dialects import servers as server_sessions
from cronhare.adapters.sql.tables.schedules import LONGEST_RETENTION
from cronhare.application import bell
from cronhare.application.administration.reading import measures as metrics
from cronhare.application.events import announce, relay
from cronhare.application.worker import strategy as own_strategy
from cronhare.application.worker import unhandled as parking
from cronhare.domain import access as tokens
from cronhare.domain import addresses as web_address
from cronhare.domain import audit, execution, messages, nodes, topology
from cronhare.domain.access import LONGEST_SESSION
from cronhare.domain.cron.timeline import FIRST_MINUTE, LAST_MINUTE, moment_of
from cronhare.domain.events import alerts, events, outbox, rules
from cronhare.domain.events import targets as event_targets
from cronhare.domain.lifecycle import archive, claims, orders
from cronhare.domain.reading import MOST_FAULTS
from cronhare.domain.retries import outcome, policy, retry
from cronhare.domain.retries.policy import CEILING_MS, LONGEST_STRATEGY
from cronhare.domain.schedules import (
    catalog,
    conditions,
    http_call,
    keys,
    planning,
    reminder,
    schedule,
    task,
)
from cronhare.domain.schedules.task import KEPT
from cronhare.domain.texts import moments
from cronhare.entrypoints.cli.options import MOST_LINES
from cronhare.entrypoints.container import SENDING_TIMEOUT
from cronhare.entrypoints.processes import scheduler
from cronhare.entrypoints.web import access as tries
from cronhare.entrypoints.web import asking as web_asking
from cronhare.entrypoints.web import bodies as web_bodies
from cronhare.entrypoints.web import server as web_server
from cronhare.entrypoints.web.api import executions as web_executions
from cronhare.entrypoints.web.api import operations as web_operations
from cronhare.entrypoints.web.api import reports as web_reports
from cronhare.entrypoints.web.api import scheduler_actions as web_actions
from cronhare.entrypoints.web.api import scheduler_bodies as web_schedulers
from cronhare.ports import runner, statistics
from cronhare.ports import system as http_port
from cronhare.ports.records import Retention

PAGE = Path(__file__).parents[2] / "docs" / "bounds.md"


def size(of: int) -> str:
    """Write a size as the page does."""
    return f"{of // 2**20} MiB" if of >= 2**20 else f"{of // 1024} KiB"


MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
RESENT_ON_THE_FIRST_DAY = (
    sum(
        moment <= DAY
        for moment in accumulate(map(execution.wait_after, range(20)), initial=DAY * 0)
    )
    - 1
)

MOMENTS = [moment_of(minute).date().isoformat() for minute in (FIRST_MINUTE, LAST_MINUTE)]

#: By the first column: what its value says, each from its constant. A number that no constant says
#: is a number that nobody holds.
BOUNDS: dict[str, list[str]] = {
    "log lines of an attempt": [
        size(output.BURST),
        f"{size(output.PER_SECOND)} a second",
        f"{output.LINE} bytes for each line",
    ],
    "a line of a task's output": [size(output.LOG_LINE_LIMIT)],
    "a task's output": [size(output.KEPT)],
    "a message on a task's pipe": [
        size(ipc.LONGEST_MESSAGE),
        f"a result up to {size(runner.LARGEST_RESULT)}",
        f"a progress up to 10^{len(str(runner.LARGEST_PROGRESS)) - 1}",
        f"its text {runner.LONGEST_PROGRESS_TEXT} letters",
        f"{outcome.LONGEST_RETRY_AFTER // timedelta(hours=1)} hours",
        f"{outcome.MOST_TYPES} names",
    ],
    "a failure's sentence, code, stack": [
        f"{outcome.LONGEST_MESSAGE:,}, {outcome.LONGEST_CODE} and {outcome.LONGEST_STACK:,}"
    ],
    "a strategy of one's own": [
        f"{own_strategy.TIMEOUT.total_seconds():.0f} s",
        f"{timedelta(milliseconds=CEILING_MS).days} days",
        f"{LONGEST_STRATEGY} characters",
    ],
    "what is kept of a class": [f"0 to {KEPT[-1]:,} runs", f"{LONGEST_RETENTION:,} characters"],
    "classes of errors in a jobs file": [
        f"{outcome.MOST_ERRORS} of a class",
        f"{outcome.LONGEST_CODE} characters",
    ],
    "an attempt that hangs in the kernel after its kill": [f"{attempt.KILL_TIMEOUT:.0f} s"],
    "a message's body": [
        size(messages.LARGEST_BODY),
        f"in the failed queue {size(archive.LARGEST_FAILED)}",
    ],
    "what is parked of a body": [size(parking.LARGEST_PARKED), size(parking.STUB)],
    "a schedule's name, source, task's name, cron text": [
        f"{schedule.LONGEST_NAME} letters each",
        f"its zone {schedule.LONGEST_ZONE}",
    ],
    "a retry policy": [f"{policy.LONGEST_POLICY:,} letters"],
    "params": [size(task.LARGEST_PARAMS)],
    "`misfire_cap`": [f"{schedule.CAPS[0]}-{schedule.CAPS[-1]:,}"],
    "a span (`timeout_ms`, `jitter_ms`, `misfire_window_ms`)": [
        f"{moments.LONGEST_DURATION.days // 365} years"
    ],
    "an iCalendar file of a calendar": [
        size(calendars.LARGEST_ICS),
        f"{calendars.MOST_EVENTS:,} events",
    ],
    "an interval (`every`, `every_ms`)": [
        f"{schedule.SHORTEST_INTERVAL // schedule.SECOND} s to",
        f"{schedule.LONGEST_INTERVAL.days} days",
    ],
    "a URL": [f"{web_address.LONGEST_LABEL} characters between two dots"],
    "a broker's URL": [f"{servers.LONGEST_HEARTBEAT:,} s"],
    "the address of a request over HTTP": [
        f"{web_address.LONGEST_WEB_ADDRESS:,} characters",
        f"in its host {web_address.LONGEST_HOST}",
    ],
    "a request over HTTP": [
        f"{http_call.MOST_SENT} headers of {http_call.LONGEST_VALUE:,} characters",
        f"names of {http_call.LONGEST_HEADER}",
        f"{http_port.LONGEST_REQUEST // MINUTE} min",
    ],
    "an answer over HTTP": [size(http_port.KEPT_OF_ANSWER), size(http_client._LARGEST_FRAME)],
    "the import of an app": [f"{apps.LONGEST:g} s", size(catalog.LARGEST_FILE)],
    "targets of a jobs file": [
        f"{event_targets.MOST_TARGETS};",
        f"{event_targets.MOST_NAMED} of one schedule",
        f"{event_targets.MOST_ADDRESSES} addresses",
    ],
    "a reminder": [
        f"a subject of {reminder.LONGEST_SUBJECT} characters",
        f"a text of {reminder.LONGEST_TEXT:,}",
        f"{event_targets.MOST_NAMED} targets",
    ],
    "a topic": [f"{catalog.LONGEST_TOPIC} characters", f"{catalog.MOST_TOPICS} of one task"],
    "a target's timeout": [f"{event_targets.LONGEST_TIMEOUT // MINUTE} min"],
    "a webhook's secret": [f"{targets.SHORTEST_SECRET} to {targets.LARGEST_SECRET:,} characters"],
    "an event": [
        size(outbox.LARGEST_EVENT),
        f"{events.LONGEST_REASON:,} characters",
        f"params of {events.LARGEST_PARAMS:,}",
    ],
    "telling a target": [
        f"{outbox.MOST_TRIES} tries",
        f"{outbox.EXPIRES_AFTER // timedelta(hours=1)} h",
        f"{relay.AT_A_TIME} events at a time",
        "one until it has heard of any",
        f"{relay.MOST_AT_A_TIME} of all",
        f"{relay.MOST_OF_FAILING} of those that have failed",
    ],
    "events that wait for a target": [f"{announce.MOST_WAITING:,}"],
    "events that were told": [f"{announce.KEPT_FOR // DAY} days"],
    "an answer of a database's server": [
        f"{server_sessions.ANSWER_SECONDS} s",
        f"{server_sessions.CONNECT_SECONDS} s while a session is set up",
        f"{server_sessions.ONE_OF_SEVERAL_SECONDS} s with several hosts",
    ],
    "a shutdown": [
        f"{scheduler.ROUND:.0f} s for a scheduler's round",
        f"{nodes.ENDING:.0f} s",
    ],
    "a jobs file": [
        size(catalog.LARGEST_FILE),
        f"{catalog.DEEPEST} tables",
        f"{catalog.LARGEST_INTEGER.bit_length() + 1} bits",
    ],
    "faults that are told of a jobs file": [f"{MOST_FAULTS}"],
    "the name of a jobs file without `source`": [f"{catalog.LONGEST_SOURCE} printable letters"],
    "a crontab": [size(catalog.LARGEST_FILE), f"{reader.LONGEST_LINE:,} characters a line"],
    "a number of an execution or a failure": [f"2^{messages.LARGEST_ID.bit_length()}-1"],
    "a date and a time in ISO 8601": [f"{moments.LONGEST_MOMENT} letters"],
    "a time on the command line": MOMENTS,
    "copies of a message": [
        f"{execution.FIRST_WAIT // MINUTE} min",
        f"sent again {RESENT_ON_THE_FIRST_DAY} times on the first day",
    ],
    "params of a message of somebody else": [size(task.LARGEST_PARAMS)],
    "wrong tokens": [
        f"{tries.MOST_FROM_ONE} from one address",
        f"{tries.MOST_FROM_ALL} from all within {tries.WINDOW:.0f} s",
        f"{tries.MOST_REMEMBERED:,} addresses",
    ],
    "a token": [
        f"{tokens.LONGEST_LIFE.days:,} days",
        f"{LONGEST_SESSION.total_seconds() / 3_600:.0f} hours",
    ],
    "a value before or after a change": [
        f"texts of {audit.LONGEST_TEXT:,} letters",
        f"{audit.MOST_MEMBERS} members",
        f"{audit.DEEPEST} in one another",
        f"{audit.MOST_READ:,} letters",
    ],
    "entries of a jobs file's changes, and how long entries are kept": [
        f"{audit.MOST_ENTRIES}; {audit.KEPT_FOR.days} days"
    ],
    "a type in a message": [f"{messages.LONGEST_TYPE} letters"],
    "a queue's name": [f"{topology.LONGEST_QUEUE_NAME} bytes"],
    "the weight of a queue in `CRON_QUEUES`, `--queues`": [
        f"{topology.WEIGHTS[0]} to {topology.WEIGHTS[-1]}"
    ],
    "queues of a process": [f"{topology.MOST_QUEUES}"],
    "schedules with `stay_alive` that `up` keeps running": [f"{topology.MOST_QUEUES}"],
    "the wait for a worker that has the task of a run": [f"{retry.TASK_WAIT // MINUTE} min"],
    "a snooze of a task": [
        " to ".join(moments.say_duration(each) for each in outcome.SNOOZES),
    ],
    "failures after which a schedule pauses itself": [
        f"{conditions.PAUSE_AFTER[0]} to {conditions.PAUSE_AFTER[-1]:,} in a row"
    ],
    "crashes of an execution": [
        f"{outcome.CRASH_LIMIT} within {outcome.CRASH_WINDOW.total_seconds():.0f} s",
        f"{outcome.CRASH_LIMITS[0]} to {outcome.CRASH_LIMITS[-1]}",
        f"{outcome.CRASH_WINDOWS_MS[0] // 1000} s to {outcome.CRASH_WINDOWS_MS[-1] // 3_600_000} h",
    ],
    "the headers that a task gives its request": [
        f"{http_call.MOST_HEADERS}, ",
        f"{http_call.LONGEST_VALUE:,} characters",
        f"{http_call.MOST_STATUSES} statuses",
    ],
    "a replay of many": [
        f"{orders.RATES[0]:g}-{orders.RATES[1]:,g}",
        f"up to {['no', 'ten'][orders.JITTERS[1] == 10]} times",
        f"{orders.AT_ONCE[0]}-{orders.AT_ONCE[-1]:,}",
        f"a canary of {orders.CANARIES[-1]:,}",
        f"{orders.LONGEST_PATH} characters",
    ],
    "replays that have ended, with the list of what was in them": [
        f"{Retention().others.days} days",
        f"{database.STEP:,} failures in a transaction",
    ],
    "a backfill": [f"{claims.MOST_INSTANTS:,} due instants"],
    "series of a metric": [f"{metrics.MOST_SERIES:,}", f"{metrics.LONGEST_LABEL} characters"],
    "services of a target, a file of them": [
        f"{event_targets.MOST_ADDRESSES};",
        size(targets.LARGEST_SERVICES),
        f"an address {web_address.LONGEST_WEB_ADDRESS:,} characters",
    ],
    "events of a kind that a target is told of each by itself": [
        f"{event_targets.DEFAULT_DIGEST} a minute",
        f"up to {event_targets.LARGEST_DIGEST:,}",
        f"{outbox.MOST_TOGETHER:,} in one message",
        f"{outbox.SHOWN} of them",
    ],
    "schedules of a file with a `ping`; its body": [
        f"{event_targets.MOST_PINGS};",
        f"{outbox.LONGEST_TAIL:,} characters",
    ],
    "`not_started_by`, `not_finished_by`": [f"{rules.LONGEST_WAIT.days} days"],
    "`longer_than_usual`, `least_output`": [
        f"{rules.LARGEST_FACTOR:,.0f} times",
        f"{rules.LARGEST_OUTPUT >> 40} TiB",
    ],
    "thresholds of alerts, a runbook": [
        f"up to {rules.LARGEST:,}",
        f"{policy.ATTEMPTS[-1]} retries",
        "a rate of 1",
        f"{rules.LONGEST_RUNBOOK:,} characters",
    ],
    "an alert": [f"{alerts.CLEAR_AFTER.total_seconds() / 60:.0f} min"],
    "lines of statistics": [
        f"{statistics.MOST_GROUPS}, or",
        f"up to {MOST_LINES:,}",
        f"{statistics.REASON_LENGTH} characters",
    ],
    "how often a message may come back to a quorum task queue": [
        f"{DELIVERY_LIMIT} times",
    ],
    "reports of nodes that are looked at": [f"{nodes.MOST_REPORTS:,}"],
    "a request to `cronhare web`": [
        f"a head of {size(web_server.LARGEST_HEAD)}",
        f"a body of {size(web_bodies.LARGEST_BODY)}",
        f"{web_server.ARRIVAL:.0f} s",
    ],
    "connections to `cronhare web`": [
        f"{web_server.MOST_CONNECTIONS}",
        f"{web_server.MOST_OPEN} in all",
        f"{web_server.AT_REST} s at rest",
        f"{web_asking.AT_A_TIME} ask",
    ],
    "what a body of the HTTP API says": [
        f"{catalog.DEEPEST} lists",
        f"whole numbers of {catalog.LARGEST_INTEGER.bit_length() + 1} bits",
        f"a description of {web_schedulers.LONGEST_DESCRIPTION:,} letters",
        f"a controller of {web_reports.LONGEST_CONTROLLER}",
        f"{MOST_FAULTS} faults",
        f"{jobs_limits.LONGEST_STEP} letters",
    ],
    "what is asked of the HTTP API in a query": [
        f"{web_operations.ROWS} rows",
        f"{web_operations.MOST_ROWS:,} at most, names",
        f"of {web_operations.LONGEST_TEXT} letters",
        f"{web_actions.INSTANTS} runs to come and {web_actions.MOST_INSTANTS:,}",
        f"{web_executions.MOST_LINES:,} last lines",
    ],
    "an Idempotency-Key": [f"{web_operations.LONGEST_TEXT} signs"],
    "a run at boot (`on_boot`)": [f"{keys.LONGEST_AGO.total_seconds() / 3_600:.0f} hours"],
    "a run that is asked for by hand": [
        f"for {SENDING_TIMEOUT:.0f} s, sends",
        f"{bell.MOST_AT_ONCE} messages",
        f"the {bell.PAUSE.seconds} s after",
        f"for {bell.HEAD_START.seconds} s",
    ],
    "missed instants that are counted": [f"{planning.MOST_COUNTED:,} of a schedule"],
}


def rows() -> dict[str, str]:
    """Read the first two columns of the page's table."""
    table = re.findall(r"^\| (.+?) \| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    return dict(table[2:])


@pytest.mark.parametrize("bound", rows())
def test_each_number_of_a_bound_comes_from_a_constant(bound: str) -> None:
    assert bound in BOUNDS, "say here which constants hold it"
    value = rows()[bound]
    for said in BOUNDS[bound]:
        assert said in value
        value = value.replace(said, "")
    assert not re.search(r"\d", value), f"no constant says: {value}"


def test_each_bound_is_on_the_page() -> None:
    assert BOUNDS.keys() <= rows().keys()


def test_what_is_the_same_bound_is_the_same_number() -> None:
    assert catalog.LONGEST_SOURCE == schedule.LONGEST_NAME
