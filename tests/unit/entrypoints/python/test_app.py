"""What an app says of its tasks and schedules, and what it refuses where it is written."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from cronhare import App, Context, Retry, Snooze, at, cron, every
from cronhare.adapters.jobs.schedules import ScheduleTable
from cronhare.adapters.jobs.tasks import TaskTable
from cronhare.entrypoints.python.words import ScheduleWords, TaskWords, When

#: What `App.schedule` takes beside its words: a call, and its times; a topic is no call.
GIVEN_OTHERWISE = {"task", "params", "topic", "payload", "no_listener"}
TIMES = {"schedule", "every", "date_time", "gap", "fold", "timezone"}

#: What `App.task` names, and what is for tasks that are no functions.
NAMED_BY_TASK = {"timeout", "retry", "executor", "per_child", "memory", "aliases", "context"}
OTHER_KINDS = {
    *("command", "url", "method", "headers", "headers_env", "success"),
    *("remind", "subject", "text", "python", "pass_env"),
}


@pytest.fixture
def app() -> App:
    return App("shop")


def test_a_task_stays_the_function_that_it_was_and_a_context_is_not_bound(app: App) -> None:
    @app.task(name="mail.send")
    async def send(ctx: Context, order: int) -> str:
        """Send it."""
        return f"{order} of {ctx.key}"

    ctx = Context(due_at=datetime(2026, 11, 26, tzinfo=UTC), key="k")

    assert asyncio.run(send(ctx, 7)) == "7 of k"
    assert send.bind(order=7).params == {"order": 7}
    assert (send.name, send.__name__, send.__doc__) == ("mail.send", "send", "Send it.")


def test_its_tables_are_those_of_a_jobs_file() -> None:
    app = App("shop", queues=["mail"])

    @app.task(
        name="mail.send",
        aliases=["old.mailer"],
        timeout=timedelta(minutes=5),
        retry=Retry(4, first="30s", most=timedelta(hours=1)),
        memory="512M",
        queue="mail",
        class_="email",
    )
    async def send(order: int) -> None: ...

    app.notify("billing", mail="b@example.com")
    app.calendar("bank", country="DE")
    app.schedule(
        "remind",
        send.bind(order=3),
        cron("0 8 * * 1-5", tz="Europe/Berlin", gap="skip", jitter="5s"),
        expires=timedelta(hours=4),
        skip_on=("bank",),
    )

    assert app.tables("shop.jobs:app") == {
        "source": "shop",
        "queues": ["mail"],
        "defaults": {},
        "tasks": {
            "mail.send": {
                "python": "shop.jobs:app",
                "executor": "async",
                "aliases": ["old.mailer"],
                "timeout": "5m",
                "retry": {
                    "attempts": 4,
                    "backoff": {"type": "exponential", "delay": 30_000, "max_delay": 3_600_000},
                },
                "memory": "512M",
                "class": "email",
            }
        },
        "schedules": {
            "remind": {
                "task": "mail.send",
                "queue": "mail",
                "schedule": "0 8 * * 1-5",
                "timezone": "Europe/Berlin",
                "gap": "skip",
                "jitter": "5s",
                "expires": "4h",
                "skip_on": ["bank"],
                "params": {"order": 3},
            },
            "shop:mail.send": {"task": "mail.send", "manual": True, "queue": "mail"},
        },
        "notify": {"billing": {"mail": "b@example.com"}},
        "calendars": {"bank": {"country": "DE"}},
    }


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (every(timedelta(seconds=90)), {"every": "1m30s"}),
        (every(30.0), {"every": "30s"}),
        # A moment within a minute is the next one, as no run is early.
        (at(datetime(2026, 12, 1, 9, 0, 30, tzinfo=UTC)), "2026-12-01T09:01:00+00:00"),
        (at("2026-11-26 08:00", tz="Asia/Tokyo"), "2026-11-26 08:00"),
    ],
)
def test_times_are_written_as_a_jobs_file_has_them(when: When, words: object) -> None:
    assert words in (when.words, when.words.get("date_time"))


def test_the_words_of_python_are_the_words_of_the_reader() -> None:
    schedule = {each.name for each in attrs.fields(ScheduleTable)}
    task = {each.name for each in attrs.fields(TaskTable)}

    assert ScheduleWords.__annotations__.keys() == schedule - GIVEN_OTHERWISE - TIMES
    assert TaskWords.__annotations__.keys() == task - NAMED_BY_TASK - OTHER_KINDS


def test_a_name_that_is_taken_is_told_with_both_places(app: App) -> None:
    @app.task(name="send", aliases=["mailer"])
    def first() -> None: ...

    with pytest.raises(ValueError, match="'mailer' of shop is taken, by the function at") as found:

        @app.task
        def mailer() -> None: ...

    assert str(found.value).count(Path(__file__).name) == 2
    assert set(app.tasks) == {"send"}


@pytest.mark.parametrize("name", ["Send", "send mail", "a:b", "-x", "x" * 64, ""])
def test_a_name_that_the_ledger_does_not_take_is_refused(app: App, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a task: allowed are a-z, 0-9"):
        app.task(name=name)(lambda: None)


def test_what_is_no_call_of_this_app_cannot_be_scheduled(app: App) -> None:
    @app.task
    def sweep() -> None: ...

    with pytest.raises(TypeError, match=r"is no call of a task: give TASK\.bind"):
        app.schedule("sweep", sweep, every("1h"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"'0 8 .*' says no times: give cron"):
        app.schedule("sweep", sweep.bind(), "0 8 * * *")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"<task sweep of shop> is not of other"):
        App("other").schedule("sweep", sweep.bind(), every("1h"))


def test_an_included_module_registers_its_tasks_once_the_app_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "depot.py").write_text("from cronhare import App\napp = App('d', include=['more'])")
    (tmp_path / "more.py").write_text("from depot import app\n@app.task\ndef sweep(): ...")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "depot", raising=False)

    from depot import app  # type: ignore[import-not-found] # noqa: PLC0415 - it is made above

    assert not app.tasks
    assert list(app.tables("depot:app")["tasks"]) == ["sweep"]


@pytest.mark.parametrize(("after", "seconds"), [("1m", 60), (timedelta(hours=1), 3600), (2.5, 2.5)])
def test_a_snooze_says_for_how_long(after: str | timedelta | float, seconds: float) -> None:
    assert Snooze(after).seconds == seconds


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (lambda: cron("0 8 * *"), "found 4"),
        (lambda: cron("61 H * * *"), "minute"),
        (lambda: cron("@daily", tz="Berlin"), "Europe/Berlin"),
        (lambda: Snooze(-1), "cannot be put off by"),
    ],
)
def test_times_that_cannot_be_are_refused_in_their_own_line(
    say: Callable[[], object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        say()


def of_self(self: object) -> None: ...


def of_none() -> None: ...


@pytest.mark.parametrize(
    ("say", "instead"),
    [
        (
            lambda app: app.task(time_limit=30, acks_late=True)(print),
            "for time_limit write timeout=",
        ),
        (lambda app: app.task(max_retries=3)(print), "counts the first run as well"),
        (lambda app: app.remote("a").bind().enqueue(countdown=3), "for countdown write delay"),
        (lambda app: app.remote("a").bind().options(task_id="x"), "for task_id write key"),
        (lambda app: app.task(of_self), "write `ctx: Context`"),
        (lambda app: app.task(of_none).delay(), r"has no delay: write TASK\.bind\(…\)\.enqueue"),
    ],
)
def test_words_of_celery_are_refused_in_their_own_line_with_what_to_write(
    app: App, say: Callable[[Any], object], instead: str
) -> None:
    with pytest.raises((TypeError, AttributeError), match=instead):
        say(app)


#: Prints the seconds of CPU, then what was imported.
MEASURE = """
import sys, time
before, began = set(sys.modules), time.process_time()
{statement}
spent = time.process_time() - began
print(spent, *{{name.partition(".")[0] for name in sys.modules.keys() - before}})
"""


def measure(statement: str) -> tuple[float, set[str]]:
    code = [sys.executable, "-c", MEASURE.format(statement=statement)]
    done = subprocess.run(code, capture_output=True, text=True, check=True, env={})
    spent, *names = done.stdout.split()
    return float(spent), set(names)


@pytest.mark.parametrize("statement", ["import cronhare", "from cronhare import App, enqueue_many"])
def test_the_import_brings_only_the_standard_library_for_less_than_asyncio(statement: str) -> None:
    _, names = measure(statement)  # it may compile what it imports

    assert names - sys.stdlib_module_names == {"cronhare"}
    # 30 ms on a machine that takes 40 for asyncio. Others may be at work there: once is enough.
    turns = ((measure(statement)[0], measure("import asyncio")[0]) for _ in range(20))
    assert any(ours < 0.75 * asyncios for ours, asyncios in turns)


def test_what_pytest_loads_of_us_for_all_tests_brings_none_of_the_system() -> None:
    _, names = measure("import cronhare.testing.plugin")

    assert not names & {"sqlalchemy", "alembic", "msgspec", "attrs", "dependency_injector"}
