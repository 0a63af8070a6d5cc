"""Boundary: rows of `Scheduler` as people and broken programs write them, on a real database."""

from collections.abc import Callable
from functools import partial
from itertools import count

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled
from tests.fuzz.works import PATIENCE, Works, works
from tests.ports import ids_of
from tests.services import mariadb
from tests.services.finding import wait_until

#: What must not run: the schedule is told to be broken.
REFUSED = {
    "no cron text": "schedule = ''",
    "cron text of blanks": "schedule = '     '",
    "cron text with a NUL": "schedule = CONCAT('* * * * *', CHAR(0))",
    "cron text with an escape": "schedule = CONCAT(CHAR(27), '[2J')",
    "cron text of emoji": "schedule = REPEAT(CONVERT(X'F09F9087' USING utf8mb4), 200)",
    "a month 13": "schedule = NULL, date_time = '2026-13-45 00:00'",
    "a date-time of words": "schedule = NULL, date_time = 'infinity'",
    "a zone of blanks": "timezone = '   '",
    "a zone that climbs": "timezone = 'Europe/../../x'",
    "a zone of the machine": "timezone = 'localtime'",
    "params of no JSON": "params = 'None'",
    "params of NaN": "params = 'NaN'",
    "params of half a surrogate": """params = '{"a": "\\\\ud800"}'""",
    "params of 101 KiB": """params = CONCAT('{"a": "', REPEAT('x', 101 * 1024), '"}')""",
    "params with a number of 5,000 digits": """params = CONCAT('{"a": ', REPEAT('9', 5000), '}')""",
    "a retry of a text": "retry = 'often'",
    "a retry of a list": "retry = '[1]'",
    "a retry of true": """retry = '{"attempts": true}'""",
    "a retry of 1e400": """retry = '{"attempts": 1e400}'""",
    "a retry with a delay of -1": """retry = '{"attempts": 2, "backoff": {"type": "fixed", "delay": -1}}'""",  # noqa: E501
    "a retry with a list of a million": """retry = CONCAT('{"attempts": 2, "backoff": {"type": "sequence", "delays": [', REPEAT('1000,', 100000), '1000]}}')""",  # noqa: E501
    "an unknown misfire": "misfire_policy = 'sometimes'",
    "a cap of none": "misfire_policy = 'all', misfire_cap = 0",
    "a cap below none": "misfire_policy = 'all', misfire_cap = -2147483648",
    "a window below nothing": "misfire_window_ms = -1",
    "an unknown overlap": "overlap_policy = 'perhaps'",
    "a timeout of nothing": "timeout_ms = 0",
    "a jitter of 2^63-1": "jitter_ms = 9223372036854775807",
    "a jitter below nothing": "jitter_ms = -1",
    "a delay of 0 that is not linear": """retry = '{"backoff": {"type": "fixed", "delay": 0}}'""",
    "a retry with a strategy": """retry = '{"strategy": "os:abort"}'""",
    "an interval below nothing": "schedule = NULL, every_ms = -1",
    "an interval of 2^63-1": "schedule = NULL, every_ms = 9223372036854775807",
    "an interval of half a second": "schedule = NULL, every_ms = 500",
    "an interval beside cron text": "every_ms = 1000",
    "an unknown gap": "gap_policy = 'x'",
    "a fold with a blank behind it": "fold_policy = 'both '",
    "a start of words": "starts_at = 'tomorrow'",
    "an end of the year 0": "ends_at = '0000-00-00'",
    "a queue of no letters": "queue = ''",
    "a queue with a NUL": "queue = CONCAT('q', CHAR(0))",
    "the failed queue": "queue = 'cron_scheduler_failed'",
    "a queue of the broker's own": "queue = 'amq.gen-x'",
    "two tasks": "report_id = 1",
    "no task": "worker_id = NULL",
    "a queue of what stays alive": "queue = 'cron_standalone.x'",
    "a topic beside a task": "topic = 'orders.due'",
    "a topic with a blank behind it": "worker_id = NULL, topic = 'orders.due '",
    "a topic of signs": "worker_id = NULL, topic = 'orders.*'",
    "a topic with a NUL": "worker_id = NULL, topic = CONCAT('a', CHAR(0))",
    "an unknown fate of the unheard": "no_listener = 'FAIL'",
    "a type without a number": "worker_id = NULL, task_type = 'import'",
    "a number without a type": "worker_id = NULL, task_id = 1",
    "a type beside a number of another": "task_type = 'import', task_id = 1",
    "a type that is the system's": "worker_id = NULL, task_type = 'system', task_id = 1",
    "a type with a blank behind it": "worker_id = NULL, task_type = 'import ', task_id = 1",
    "a type in capitals": "worker_id = NULL, task_type = 'IMPORT', task_id = 1",
    "a zone with a blank behind it": "timezone = 'UTC '",
    "a misfire with a blank behind it": "misfire_policy = 'all '",
    "an overlap with a blank behind it": "overlap_policy = 'skip '",
    "a task below nothing": "worker_id = -2147483648",
}

#: What may run or be told, but holds up nobody.
ANY = {
    "cron text in two lines": "schedule = CONCAT('* *', CHAR(10), '* * *')",
    "an interval of a year": "schedule = NULL, every_ms = 31622400000",
    "a gap for a date-time": "schedule = NULL, date_time = '2026-01-01', gap_policy = 'skip'",
    "cron text and a date-time": "date_time = '2026-01-01 00:00:00'",
    "a date-time of the year 9999": "schedule = NULL, date_time = '9999-12-31 23:59:59'",
    "a date-time with an offset": "schedule = NULL, date_time = '2026-01-01T00:00:00+14:00'",
    "params of no letters": "params = ''",
    "params of 99 KiB": """params = CONCAT('{"a": "', REPEAT('x', 99 * 1024), '"}')""",
    "a retry of nothing": "retry = '{}'",
    "a retry of null": "retry = 'null'",
    "a linear delay of 0": """retry = '{"backoff": {"type": "linear", "delay": 0}}'""",
    "what is kept, in a word": "retention = 'all'",
    "what is kept below nothing": """retention = '{"class": "emails", "done": -1}'""",
    "what is kept of 10 MB": "retention = REPEAT('[', 10000000)",
    "what is kept of no class": """retention = '{"class": "../x", "done": 0}'""",
    "a description of 10 MB": "description = REPEAT('d', 10000000)",
    "a name with an escape": "name = CONCAT(CHAR(27), ']0;x', CHAR(7), UUID())",
    "a name that turns around": "name = CONCAT(CONVERT(X'E280AE' USING utf8mb4), UUID())",
    "a name of nothing": "name = NULL",
    "a name with a blank behind it": "name = CONCAT(UUID(), ' ')",
    "a source with a blank behind it": "source = 'by hand '",
    "a source of 1 MB": "source = REPEAT('s', 1000000)",
    "a misfire in capitals": "misfire_policy = 'ALL'",
    "a start after its end": "starts_at = '2030-01-01 00:00:00', ends_at = '2020-01-01 00:00:00'",
    "made in words": "created_at = 'long ago'",
    "written in words": "updated_at = 'just now'",
    "written in the year 9999": "updated_at = '9999-12-31 23:59:59.999999'",
    "on by 2": "status = 2",
    "on by -1": "status = -1",
    "on by nothing": "status = NULL",
    "stays alive by 127": "stay_alive = 127",
    "users beyond all numbers": "user_id = 2147483647, language_id = 0",
    "users below nothing": "user_id = -1, group_id = -1, language_id = -1",
    "a topic that nobody hears": "worker_id = NULL, topic = 'orders.due'",
    "a topic unheard that fails": "worker_id = NULL, topic = 'a', no_listener = 'fail'",
    "a type that nobody has": "worker_id = NULL, task_type = 'import', task_id = 1",
    "a task of 2^31-1": "worker_id = 2147483647",
}

_numbers = count()


def _try(works: Works, spoilt: str) -> tuple[Answer, int]:
    """Write it into a schedule, make that due, and wait until it is told or has run."""
    arena = works.plant.arena
    name = f"victim-{next(_numbers)}"
    draft = ScheduleDraft(name=name, task=TaskRef("worker", 1), schedule="@yearly")
    arena.schedules.save([draft], source="by hand", now=arena.claims.now())
    id_ = ids_of(arena.schedules, [name])[name]
    _wait(lambda: _is_planned(works, id_), "it is not planned")
    mariadb.run(
        arena.database,
        "SET NAMES utf8mb4",
        "SET SESSION sql_mode = ''",
        f"UPDATE Scheduler SET {spoilt} WHERE id = {id_}",
        f"UPDATE SchedulerPlan SET next_due_at = '2026-01-01' WHERE scheduler_id = {id_}",
    )
    _wait(lambda: _is_told(works, id_, name) or _has_run(works, id_), f"silence about {spoilt}")
    has_run = _has_run(works, id_)
    mariadb.run(arena.database, f"UPDATE Scheduler SET status = 0 WHERE id = {id_}")
    return (Answer.HANDLED if has_run else Answer.REFUSED), id_


def _wait(condition: Callable[[], bool], what: str) -> None:
    try:
        wait_until(condition, seconds=PATIENCE / 2, every=0.1, what=what)
    except TimeoutError:
        raise Mishandled(what) from None


def _is_planned(works: Works, id_: int) -> bool:
    return bool(works.plant.query(f"SELECT 1 FROM SchedulerPlan WHERE scheduler_id = {id_}"))


def _has_run(works: Works, id_: int) -> bool:
    return bool(set(works.states(f"scheduler_id = {id_}")) - {"skipped"})


def _is_told(works: Works, id_: int, name: str) -> bool:
    """Whether a person finds out: in the log, or by what the plan says."""
    planned = works.plant.query(
        f"SELECT problem, next_due_at FROM SchedulerPlan WHERE scheduler_id = {id_}"
    )
    return (
        not planned
        or planned[0][0] is not None
        or planned[0][1] is None  # ended, off, or not yet begun
        or planned[0][1].year > 2026
        or any(name in line["message"] or f"#{id_} " in line["message"] for line in works.lines())
    )


def _refused(works: Works, spoilt: str) -> Answer:
    _, id_ = _try(works, spoilt)
    if ran := set(works.states(f"scheduler_id = {id_}")) - {"skipped", "quarantined", "cancelled"}:
        raise Mishandled(f"it ran: {ran}")
    return Answer.REFUSED


def _any(works: Works, spoilt: str) -> Answer:
    return _try(works, spoilt)[0]


BOUNDARY = Boundary(
    name="more rows",
    at=works,
    entries=[
        *(
            Entry(name, partial(_refused, spoilt=spoilt), short=n == 13)
            for n, (name, spoilt) in enumerate(REFUSED.items())
        ),
        *(Entry(name, partial(_any, spoilt=spoilt)) for name, spoilt in ANY.items()),
    ],
)
