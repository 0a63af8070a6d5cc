"""docs/bounds.md says what the code holds: each number on the page comes from a constant."""

import re
from datetime import timedelta
from itertools import accumulate
from pathlib import Path

import pytest

from cronhare.adapters import tls
from cronhare.adapters.crontab import reader, settings
from cronhare.adapters.http import client as http_client
from cronhare.adapters.http import connecting, exchange, requests
from cronhare.adapters.jobs import ics, targets
from cronhare.adapters.jobs import limits as jobs_limits
from cronhare.adapters.notify import apprise_sender, mail, smtp
from cronhare.adapters.process.attempt import attempt
from cronhare.adapters.process.output import attempt_log, capture, pipes
from cronhare.adapters.process.output import ipc_messages as ipc
from cronhare.adapters.process.warden import link
from cronhare.adapters.rabbitmq.publisher import suspects
from cronhare.adapters.rabbitmq.topology import steps
from cronhare.adapters.rabbitmq.wire import frames, properties, versions
from cronhare.adapters.sql import cooldown, gauges
from cronhare.adapters.sql.attempts import store as held_again
from cronhare.adapters.sql.dialects import sessions as server_sessions
from cronhare.adapters.sql.records import backfill as backfill_steps
from cronhare.adapters.sql.records import replays
from cronhare.adapters.sql.records import retention as retention_steps
from cronhare.adapters.sql.rows import own as cached
from cronhare.adapters.sql.rows.schedules import LONGEST_RETENTION
from cronhare.adapters.sql.schema import tables
from cronhare.adapters.system import fifo_bell
from cronhare.application.administration.views import alerts as shown_alerts
from cronhare.application.administration.views import metrics
from cronhare.application.events import (
    adding,
    alerting,
    announcing,
    backlog,
    pinging,
    relay,
    schedule_judging,
)
from cronhare.application.events import finding as event_finding
from cronhare.application.publishing import sending_bell
from cronhare.application.redelivery import delay, queue_backoff, waiting_room
from cronhare.application.redelivery import quarantine_message as parking
from cronhare.application.scheduling import end_publisher, gaps, paging, replaying
from cronhare.application.worker import (
    attempt_runner,
    live_output,
    own_waits,
    recording,
    redelivered,
)
from cronhare.application.worker import ledger as worker_ledger
from cronhare.application.worker import standalone as keeping_alive
from cronhare.domain import nodes, shutdown_times, task_report, topology
from cronhare.domain.access import audit, tokens, tries
from cronhare.domain.access.sessions import LONGEST_SESSION
from cronhare.domain.addresses import allowed_hosts, broker, server_url, web_address
from cronhare.domain.cron.timeline import FIRST_MINUTE, LAST_MINUTE, moment_of
from cronhare.domain.diagnosis import finding
from cronhare.domain.lifecycle import (
    alert_policy,
    alerts,
    backfill,
    digests,
    events,
    failures,
    pings,
    redelivery,
    replay_order,
    schedule_alerts,
    start_fence,
    statistics,
)
from cronhare.domain.messages import headers, ids, messages
from cronhare.domain.messages import nack_count as deaths
from cronhare.domain.queueing import served_queues
from cronhare.domain.reading import MOST_FAULTS
from cronhare.domain.retries import (
    crashes,
    error_classes,
    outcome,
    redeliveries,
    retry,
    retry_after,
)
from cronhare.domain.retries import retry_policy_parser as policies
from cronhare.domain.retries.backoff import CEILING_MS, REST
from cronhare.domain.retries.strategy import LONGEST_STRATEGY
from cronhare.domain.schedules import (
    alert_rules,
    boot,
    every,
    http_call,
    jobs_file,
    notify,
    params,
    planning,
    reminder,
    schedule,
    standalone,
    topic,
)
from cronhare.domain.schedules.retention import KEPT
from cronhare.domain.texts import durations, echo, http_header, written_moments
from cronhare.entrypoints import logs
from cronhare.entrypoints.cli import bounds
from cronhare.entrypoints.cli import errors as trouble
from cronhare.entrypoints.processes import reloading, scheduler
from cronhare.entrypoints.processes.loops import DEAF
from cronhare.entrypoints.rabbitmq import SENDING_TIMEOUT
from cronhare.entrypoints.settings import setting_text
from cronhare.entrypoints.signals import handlers as attention
from cronhare.entrypoints.web import asking as web_asking
from cronhare.entrypoints.web import bodies as web_bodies
from cronhare.entrypoints.web import protocol as web_protocol
from cronhare.entrypoints.web import server as web_server
from cronhare.entrypoints.web.api import executions as web_executions
from cronhare.entrypoints.web.api import parameters as web_parameters
from cronhare.entrypoints.web.api import report_bodies as web_reports
from cronhare.entrypoints.web.api import scheduler_bodies as web_schedulers
from cronhare.entrypoints.web.api import scheduler_runs as web_runs
from cronhare.entrypoints.web.page import forms as web_forms
from cronhare.entrypoints.web.page.live import broadcast as web_broadcast
from cronhare.entrypoints.web.page.live import feeds as web_feeds
from cronhare.entrypoints.web.page.live import stream as web_stream
from cronhare.ports import system as http_port
from cronhare.ports.records import Retention
from tests.services.rabbitmq import LARGEST_AT_BROKER

PAGE = Path(__file__).parents[2] / "docs" / "bounds.md"


def size(of: int) -> str:
    """Write a size as the page does."""
    return f"{of // 2**20} MiB" if of >= 2**20 else f"{of // 1024} KiB"


MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
RESENT_ON_THE_FIRST_DAY = (
    sum(
        moment <= DAY
        for moment in accumulate(map(redelivery.wait_after, range(20)), initial=DAY * 0)
    )
    - 1
)

MOMENTS = [moment_of(minute).date().isoformat() for minute in (FIRST_MINUTE, LAST_MINUTE)]

#: By the first column: what its value says, each from its constant. A number that no constant says
#: is a number that nobody holds.
BOUNDS: dict[str, list[str]] = {
    "a log line's sentence": [f"{logs.LONGEST_MESSAGE:,} characters"],
    "a value in a log line's brackets": [f"{logs.LONGEST_VALUE} characters"],
    "a stack in the log": [f"{logs.LONGEST_STACK:,} characters"],
    "log lines of an attempt": [
        size(attempt_log.BURST),
        f"{size(attempt_log.PER_SECOND)} a second",
        f"{attempt_log.LINE} bytes for each line",
    ],
    "ends whose messages no queue has that are remembered as logged": [
        f"{end_publisher.MOST_LOGGED:,}"
    ],
    "refusals by which a look searches for the events that the database refuses": [
        f"{adding.MOST_REFUSALS} for each"
    ],
    "events that the database refuses of which it is remembered that they were logged": [
        f"{adding.MOST_SAID:,}"
    ],
    "a line of a task's output": [size(capture.LOG_LINE_LIMIT)],
    "a task's output": [size(capture.KEPT)],
    "output that is kept of running attempts": [
        size(live_output.MOST_BYTES),
        f"{live_output.EVERY:.0f} s",
    ],
    "what is read of a pipe at once": [
        size(pipes.CHUNK),
        f"{size(attempt._IPC_CHUNK)} of messages",
        f"{pipes._REST * 1000:.0f} ms",
        f"{pipes._SHARE} times",
    ],
    "a message on a task's pipe": [
        size(ipc.LONGEST_MESSAGE),
        f"a result up to {size(task_report.LARGEST_RESULT)}",
        f"a progress up to 10^{len(str(task_report.LARGEST_PROGRESS)) - 1}",
        f"its text {task_report.LONGEST_PROGRESS_TEXT} letters",
        f"{retry_after.LONGEST_RETRY_AFTER // timedelta(hours=1)} hours",
        f"{outcome.MOST_TYPES} names",
    ],
    "broken messages of an attempt": [f"{attempt_log.MOST_BROKEN:,}"],
    "a failure's sentence, code, stack": [
        f"{outcome.LONGEST_MESSAGE:,}, {outcome.LONGEST_CODE} and {outcome.LONGEST_STACK:,}"
    ],
    "a strategy of one's own": [
        f"{own_waits.TIMEOUT.total_seconds():.0f} s",
        f"{timedelta(milliseconds=CEILING_MS).days} days",
        f"{LONGEST_STRATEGY} characters",
    ],
    "what is kept of a class": [f"0 to {KEPT[-1]:,} runs", f"{LONGEST_RETENTION:,} characters"],
    "classes of errors in a jobs file": [
        f"{error_classes.MOST_ERRORS} of a class",
        f"{outcome.LONGEST_CODE} characters",
    ],
    "an attempt that hangs in the kernel after its kill": [f"{attempt.KILL_TIMEOUT:.0f} s"],
    "a warden's silence": [f"{link.UNANSWERED} questions, {link.EVERY:g} s apart"],
    "a message on a broker of `deploy/`": [size(LARGEST_AT_BROKER)],
    "a message's body": [
        size(messages.LARGEST_BODY),
        f"in the failed queue {size(failures.LARGEST_FAILED)}",
    ],
    "how deep a message's headers are nested": [f"{properties.DEEPEST}"],
    "what is parked of a body": [size(parking.LARGEST_PARKED), size(parking.STUB)],
    "what is parked of undecodable properties": [size(parking.LARGEST_PROPERTIES)],
    "headers that a parked or a failed message keeps": [
        f"{headers.MOST_HEADERS}, of {size(headers.LARGEST_HEADERS)} in all",
        f"{headers.LONGEST_NAME} bytes",
    ],
    "a schedule's name, source, task's name, cron text": [
        f"{schedule.LONGEST_NAME} letters each",
        f"its zone {schedule.LONGEST_ZONE}",
    ],
    "a retry policy": [f"{policies.LONGEST_POLICY:,} letters"],
    "params": [size(params.LARGEST_PARAMS)],
    "`misfire_cap`": [f"{schedule.CAPS[0]}-{schedule.CAPS[-1]:,}"],
    "a span (`timeout_ms`, `jitter_ms`, `misfire_window_ms`)": [
        f"{durations.LONGEST.days // 365} years"
    ],
    "an iCalendar file of a calendar": [
        size(ics.LARGEST_ICS),
        f"{ics.MOST_EVENTS:,} events",
        f"{ics.LONGEST_READING:.0f} s of the processor",
    ],
    "an interval (`every`, `every_ms`)": [
        f"{every.SHORTEST // every.SECOND} s to {every.LONGEST.days} days"
    ],
    "a tick of an interval that is claimed late": [
        f"at least {planning.SHORTEST_GRACE // every.SECOND} s",
        f"at most {planning.GRACE // every.SECOND} s",
    ],
    "attempts, deaths, crashes": [f"{deaths.MOST:,} each"],
    "a value in a fault's sentence": [f"{echo.LONGEST_ECHO} letters"],
    "what is remembered of rows": [
        f"{size(cached.LARGEST_CACHED)} each",
        f"{cached.TIMES_CACHED:,} times",
        f"{cached.RUN_OPTIONS_CACHED:,} sets of run options",
        f"{cached.TASKS_CACHED:,} tasks",
        f"{cached.POLICIES_CACHED:,} policies",
    ],
    "what is remembered of rows that the database refuses, or others keep locked": [
        f"{cooldown.MOST:,} of each kind"
    ],
    "broken executions that cannot be set apart": [
        f"{cooldown.MOST:,} at once",
        f"a page of {paging.PAGE:,}",
    ],
    "a URL": [
        f"{server_url.LONGEST_URL:,} characters",
        f"{server_url.MOST_HOSTS} hosts",
        f"{server_url.LONGEST_LABEL} characters between two dots",
    ],
    "a frame of the broker's, on a worker's links": [f"{frames.LARGEST_FRAME:,} bytes"],
    "a broker's URL": [
        f"{broker.LONGEST_VHOST} bytes",
        f"{broker.LONGEST_HEARTBEAT:,} s",
    ],
    "a settings file, and a file that holds a setting": [
        size(setting_text.LONGEST_FILE),
        f"{jobs_file.DEEPEST} tables",
    ],
    "the address of a request over HTTP": [
        f"{web_address.LONGEST_WEB_ADDRESS:,} characters",
        f"in its host {web_address.LONGEST_HOST}",
    ],
    "hosts that may be asked over HTTP": [f"{allowed_hosts.MOST_RULES} names"],
    "a request over HTTP": [
        f"{http_header.MOST_HEADERS} headers of {http_header.LONGEST_VALUE:,} characters",
        f"names of {http_header.LONGEST_NAME}",
        f"a body of {size(requests.LARGEST_BODY)}",
        f"{http_port.LONGEST_REQUEST // MINUTE} min",
    ],
    "an answer over HTTP": [size(http_port.KEPT_OF_ANSWER), size(exchange._LARGEST_FRAME)],
    "requests over HTTP at a time": [
        f"{http_client.MOST_AT_A_TIME}",
        f"{connecting.MOST_ADDRESSES} addresses",
    ],
    "targets of a jobs file": [
        f"{notify.MOST_TARGETS};",
        f"{notify.MOST_NAMED} of one schedule",
        f"{notify.MOST_ADDRESSES} addresses",
    ],
    "a reminder": [
        f"a subject of {reminder.LONGEST_SUBJECT} characters",
        f"a text of {reminder.LONGEST_TEXT:,}",
        f"{notify.MOST_NAMED} targets",
    ],
    "reminders that reached some of their targets": [f"{mail.MOST_PARTLY_TAKEN:,}"],
    "a topic": [f"{topic.LONGEST_TOPIC} characters", f"{topic.MOST_TOPICS} of one task"],
    "a target's timeout": [f"{notify.LONGEST_TIMEOUT // MINUTE} min"],
    "a webhook's secret": [f"{targets.SHORTEST_SECRET} to {targets.LARGEST_SECRET:,} characters"],
    "an event": [
        size(events.LARGEST_EVENT),
        f"{events.LONGEST_REASON:,} characters",
        f"params of {events.LARGEST_PARAMS:,}",
    ],
    "telling a target": [
        f"{events.MOST_TRIES} tries",
        f"{events.EXPIRES_AFTER // timedelta(hours=1)} h",
        f"{relay.AT_A_TIME} events at a time",
        "one until it has heard of any",
        f"{relay.MOST_AT_A_TIME} of all",
        f"{relay.MOST_OF_FAILING} of those that have failed",
    ],
    "events that wait for a target": [f"{backlog.MOST_WAITING:,}"],
    "arrivals, skips and late starts that a look finds": [
        f"{event_finding.MOST_FOUND:,}",
        f"{event_finding.MOST_FOUND * event_finding.LATE_PAGES:,} runs",
        f"{event_finding.FIND_EVERY.seconds} s",
    ],
    "events that were told": [f"{announcing.KEPT_FOR // DAY} days"],
    "a recovery that is expected": [f"{announcing.EXPECTED_FOR // DAY} days"],
    "mails under way": [f"{mail.MOST_AT_A_TIME}"],
    "what a mail server says in plain text, and in TLS": [size(smtp.LONGEST_TALK)],
    "mails of which it is remembered who took them, where others did not": [
        f"{mail.MOST_PARTLY_TAKEN:,}"
    ],
    "a PEM file: a CA, a certificate, its key": [size(tls.LARGEST_PEM)],
    "an answer of a database's server": [
        f"{server_sessions.ANSWER_SECONDS} s",
        f"{server_sessions.CONNECT_SECONDS} s while a session is set up",
        f"{server_sessions.ONE_OF_SEVERAL_SECONDS} s with several hosts",
    ],
    "a shutdown": [
        f"{scheduler.ROUND:.0f} s for a scheduler's round",
        f"{shutdown_times.ENDING:.0f} s",
    ],
    "a jobs file": [
        size(jobs_file.LARGEST_FILE),
        f"{jobs_file.DEEPEST} tables",
        f"{jobs_file.MOST_PIECES:,} keys and values",
        f"{jobs_file.LONGEST_WORD:,} characters",
        f"{jobs_file.LARGEST_INTEGER.bit_length() + 1} bits",
    ],
    "faults that are told of a jobs file, and of a settings file": [f"{MOST_FAULTS}"],
    "an answer to SIGHUP or SIGUSR1": [f"{attention.LONGEST_ANSWER:.0f} s"],
    "the name of a jobs file without `source`": [f"{jobs_file.LONGEST_SOURCE} printable letters"],
    "a crontab": [size(jobs_file.LARGEST_FILE), f"{reader.LONGEST_LINE:,} characters a line"],
    "a comment in a crontab": [f"{reader.LONGEST_COMMENT:,} characters"],
    "a number of an execution or a failure": [f"2^{ids.LARGEST_ID.bit_length()}-1"],
    "a date and a time in ISO 8601": [f"{written_moments.LONGEST_MOMENT} letters"],
    "a time on the command line": MOMENTS,
    "a line of an error": [f"{trouble.LONGEST_LINE:,} characters"],
    "instants that one transaction plans": [f"{planning.INSTANTS_AT_ONCE:,}"],
    "copies of a message": [
        f"{redelivery.FIRST_WAIT // MINUTE} min",
        f"sent again {RESENT_ON_THE_FIRST_DAY} times on the first day",
    ],
    "the message of an end for good without a confirm": [
        f"every {redelivery.Graces().ended.seconds} s",
    ],
    "what is sent again, given up, or doubted after a broker's silence, in a round": [
        f"{paging.PAGES} pages of {paging.PAGE:,}",
    ],
    "grace periods for what has lapsed, after outages or leaps of clocks": [
        f"{gaps.MOST_IN_A_ROW} in a row"
    ],
    "params of a message of somebody else": [size(params.LARGEST_PARAMS)],
    "nacks of a message of ours that count": [],
    "the wait of a run that comes again and again to a worker without its task": [
        f"{retry.LONGEST_AWAY // MINUTE} minutes"
    ],
    "looks for a row that somebody keeps locked, before a start gives its place away": [
        f"{len(worker_ledger.SHORT_PAUSES)}, within {sum(worker_ledger.SHORT_PAUSES):.1f} s",
        f"after {REST.seconds} s",
        f"a rest of {delay.PAUSE:.0f} s",
    ],
    "messages of others in hand that wait for a row, without a place of the worker's": [
        f"{waiting_room.PLACES}, for {queue_backoff.FIRST_PAUSE:.0f} s at first",
        f"up to {delay.LONGEST_DELAY.total_seconds()} s",
        f"{waiting_room.LONGEST_IN_A_CROWD:.0f} s while all are taken",
        f"{waiting_room.LONGEST_IN_VAIN} s in a crowd",
    ],
    "connections on which a queue that confirms nothing is tried": [f"{suspects.MOST_PROBES}"],
    "results that wait for a row, without a place of the worker's": [
        f"{recording.MOST_PENDING:,}",
        size(recording.MOST_PENDING_BYTES),
    ],
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
        f"{audit.MOST_TEXTS} texts",
        f"{audit.MOST_READ:,} letters",
        f"{audit.MOST_LETTERS:,} of all",
    ],
    "entries of a jobs file's changes, and how long entries are kept": [
        f"{audit.MOST_ENTRIES}; {audit.KEPT_FOR.days} days"
    ],
    "an attempt before its time": [f"{start_fence.EARLIEST.seconds} s"],
    "nacks of a message of somebody else that count": [f"{deaths.MOST:,} at the most"],
    "a type in a message": [f"{messages.LONGEST_TYPE} letters"],
    "a queue's name": [f"{topology.LONGEST_QUEUE_NAME} bytes"],
    "connections that a declaration loses over queues": [f"{steps.MOST_LOST}"],
    "the weight of a queue in `CRON_QUEUES`, `--queues`": [
        f"{served_queues.WEIGHTS[0]} to {served_queues.WEIGHTS[-1]}"
    ],
    "queues of a process": [f"{topology.MOST_QUEUES}"],
    "schedules with `stay_alive` that `up` keeps running": [f"{topology.MOST_QUEUES}"],
    "the wait for a worker that has the task of a run": [f"{retry.TASK_WAIT // MINUTE} min"],
    "reading the jobs file again for such a run": [
        f"{attempt_runner.READING:g} s",
        f"{reloading.REFUSED_FOR:g} s",
    ],
    "crashes of an execution": [
        f"{crashes.CRASH_LIMIT} within {crashes.CRASH_WINDOW.total_seconds():.0f} s",
        f"{crashes.CRASH_LIMITS[0]} to {crashes.CRASH_LIMITS[-1]}",
        f"{crashes.CRASH_WINDOWS_MS[0] // 1000} s to {crashes.CRASH_WINDOWS_MS[-1] // 3_600_000} h",
    ],
    "the headers that a task gives its request": [
        f"{http_call.MOST_HEADERS}, ",
        f"{http_header.LONGEST_VALUE:,} characters",
        f"{http_call.MOST_STATUSES} statuses",
    ],
    "a replay of many": [
        f"{replay_order.RATES[0]:g}-{replay_order.RATES[1]:,g}",
        f"up to {['no', 'ten'][replay_order.JITTERS[1] == 10]} times",
        f"{replay_order.AT_ONCE[0]}-{replay_order.AT_ONCE[-1]:,}",
        f"a canary of {replay_order.CANARIES[-1]:,}",
        f"{replay_order.LONGEST_PATH} characters",
        f"more than {replay_order.LONGEST_KEY}",
    ],
    "replays that have ended, with the list of what was in them": [
        f"{Retention().others.days} days",
        f"{retention_steps.STEP:,} failures in a transaction",
    ],
    "a backfill": [f"{backfill.MOST_INSTANTS:,} due instants"],
    "what a step of a replay looks at": [
        f"{backfill_steps.COLLECTED_AT_ONCE:,}",
        f"{replays.SETTLED_AT_ONCE:,}",
        f"{replaying.MOST_STEPS} replays",
    ],
    "series of a metric": [f"{metrics.MOST_SERIES:,}", f"{metrics.LONGEST_LABEL} characters"],
    "services of a target, a file of them": [
        f"{notify.MOST_ADDRESSES};",
        size(targets.LARGEST_SERVICES),
        f"an address {web_address.LONGEST_WEB_ADDRESS:,} characters",
    ],
    "messages to services at a time": [f"{apprise_sender.MOST_AT_A_TIME} processes"],
    "events of a kind that a target is told of each by itself": [
        f"{notify.DEFAULT_DIGEST} a minute",
        f"up to {notify.LARGEST_DIGEST:,}",
        f"{digests.MOST_TOGETHER:,} in one message",
        f"{digests.SHOWN} of them",
    ],
    "what alerts are judged by": [
        f"newest {alerts.NEWEST:,}",
        f"at least {alerts.FEWEST_RUNS}",
        f"up to {alerts.MOST_COUNTED:,}",
        f"{gauges.MOST_COUNTED:,} of what waits",
        f"{nodes.MOST_REPORTS:,} nodes",
        f"{alerting.MOST_WATCHED:,} schedules",
        f"{schedule_alerts.USUAL_RUNS} earlier runs",
        f"{schedule_judging.AT_ONCE} schedules at a time",
        f"turns of {schedule_judging.TURN:.0f} s",
    ],
    "schedules of a file with a `ping`; its body": [
        f"{notify.MOST_PINGS};",
        f"{pings.LONGEST_TAIL:,} characters",
    ],
    "runs of which a look for pings finds starts and ends": [
        f"{pinging.MOST_FOUND:,}",
        f"every {announcing.EVERY:.0f} s",
        f"last {pings.LOOKS_BACK.total_seconds() / 60:.0f} min",
    ],
    "`not_started_by`, `not_finished_by`": [f"{alert_rules.LONGEST_WAIT.days} days"],
    "`longer_than_usual`, `least_output`": [
        f"{alert_rules.LARGEST_FACTOR:,.0f} times",
        f"{alert_rules.LARGEST_OUTPUT >> 40} TiB",
    ],
    "what is shown of an alert": [
        f"{shown_alerts.LONGEST_MESSAGE:,} characters",
        f"{events.LONGEST_NAME} of a name",
        size(shown_alerts.LARGEST_DATA),
    ],
    "thresholds of alerts, a runbook": [
        f"up to {alert_policy.LARGEST:,}",
        f"{retry.ATTEMPTS[-1]} retries",
        "a rate of 1",
        f"{alert_policy.LONGEST_RUNBOOK:,} characters",
    ],
    "an alert": [f"{alerts.CLEAR_AFTER.total_seconds() / 60:.0f} min"],
    "lines of statistics": [
        f"{statistics.MOST_GROUPS}, or",
        f"up to {bounds.MOST_LINES:,}",
        f"{statistics.REASON_LENGTH} characters",
    ],
    "how often a message may come back to a quorum task queue": [
        f"{versions.DELIVERY_LIMIT} times",
    ],
    "the turn of a message that came again": [f"{redelivered.LONGEST_TURN:.0f} s"],
    "notes of who holds a message that came again": [
        f"{held_again.MOST:,}",
        f"{redeliveries.KEPT_FOR.total_seconds() / 3_600:.0f} h",
    ],
    "reports of nodes that are looked at": [f"{nodes.MOST_REPORTS:,}"],
    "a node's name, host, version and role in its report": [
        "{}, {}, {} and {} letters".format(
            *(tables.nodes.c[each].type.length for each in ("name", "host", "version", "role"))  # type: ignore[attr-defined]
        ),
    ],
    "nodes, versions and hosts that are named for one finding": [f"{finding.NAMES_TOLD}"],
    "a request to `cronhare web`": [
        f"a head of {size(web_protocol.LARGEST_HEAD)}",
        f"a body of {size(web_bodies.LARGEST_BODY)}",
        f"{web_protocol.ARRIVAL:.0f} s",
    ],
    "connections to `cronhare web`": [
        f"{web_protocol.MOST_CONNECTIONS}",
        f"{web_protocol.MOST_OPEN} in all",
        f"{web_server.AT_REST} s at rest",
        f"{web_protocol.ANSWER:.0f} s",
        f"{web_asking.AT_A_TIME} ask",
    ],
    "pages that are live at a time": [
        f"{web_broadcast.MOST_LISTENERS}, of which {web_broadcast.LOOKS_AT_A_TIME} look",
        f"{size(web_broadcast.MOST_WAITING)} of letters",
        f"{size(web_feeds.MOST_KEPT)} of an execution's output",
        f"{web_stream.LONGEST / 60:.0f} min",
    ],
    "what a form sends": [f"{web_forms.MOST_FIELDS} fields"],
    "what a body of the HTTP API says": [
        f"{jobs_file.DEEPEST} lists",
        f"whole numbers of {jobs_file.LARGEST_INTEGER.bit_length() + 1} bits",
        f"a description of {web_schedulers.LONGEST_DESCRIPTION:,} letters",
        f"a controller of {web_reports.LONGEST_CONTROLLER}",
        f"{MOST_FAULTS} faults",
        f"{web_bodies.MOST_VALUES:,} values",
        f"{jobs_limits.LONGEST_STEP} letters",
    ],
    "what is asked of the HTTP API in a query": [
        f"{web_parameters.ROWS} rows",
        f"{web_parameters.MOST_ROWS:,} at most, names",
        f"of {web_parameters.LONGEST_TEXT} letters",
        f"{web_runs.INSTANTS} runs to come and {web_runs.MOST_INSTANTS:,}",
        f"{web_executions.MOST_LINES:,} last lines",
    ],
    "an Idempotency-Key": [f"{web_parameters.LONGEST_KEY} signs"],
    "the end of `cronhare web`": [f"{web_server.ENDING} s", f"{2 * web_server.ENDING} s"],
    "the wait before a schedule with `stay_alive` is begun again": [
        f"{standalone.FIRST_WAIT.seconds} s, doubled",
        f"up to {standalone.LONGEST_WAIT // MINUTE} min",
        f"a run of {standalone.STEADY // MINUTE} min",
        f"its last {standalone.RUNS_LOOKED_AT} runs",
        f"each {keeping_alive.LOOK_EVERY:.0f} s",
    ],
    "a run at boot (`on_boot`)": [f"{boot.LONGEST_AGO.total_seconds() / 3_600:.0f} hours"],
    "a run that is asked for by hand": [
        f"for {SENDING_TIMEOUT:.0f} s, sends",
        f"{sending_bell.MOST_AT_ONCE} messages",
        f"the {sending_bell.PAUSE.seconds} s after",
        f"for {sending_bell.HEAD_START.seconds} s",
    ],
    "rings at a ledger's bell": [f"in {DEAF} s", f"{size(fifo_bell.MOST_AT_ONCE)} are"],
    "what has just become due, while a scheduler cannot publish": [
        f"for {planning.HEAD_START.seconds} s"
    ],
    "the message of an end for good, made from the archive": [size(failures.LARGEST_FAILED)],
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
    assert settings.LARGEST_ENVIRONMENT == reader.LONGEST_LINE
    assert jobs_file.LONGEST_SOURCE == schedule.LONGEST_NAME
