"""`cronhare.django` in the project of examples/django, on each Django that has tasks.

On a Python before 3.12 the tests' own environment has Django 5.2 and the backport of its tasks, and
Django 6 is in an environment of a newer one; on a newer one it is the other way round.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree, ignore_patterns
from textwrap import dedent
from typing import Any, TypeAlias

import attrs
import pytest
from sqlalchemy import URL

from tests.integration.shell import clean_environment
from tests.services.pythons import ROOT, environment_of

pytestmark = pytest.mark.integration

IS_NEW = sys.version_info >= (3, 12)
OLDER, NEWER = ("3.11",), ("3.14", "3.13", "3.12")

#: Ids, by what they are of.
Enqueued: TypeAlias = dict[str, Any]

PRELUDE = """
import json, os, sys, time
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
import django; django.setup()
from datetime import timedelta
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone
from cronhare.django.tasks import api
from orders import tasks
from orders.models import Order

def ended(result):
    until = time.monotonic() + 60
    while not result.is_finished:
        assert time.monotonic() < until, result
        time.sleep(0.05)
        result.refresh()
    return result
"""


@attrs.frozen
class Project:
    """A copy of the example, with an interpreter that has a Django."""

    folder: Path
    python: Path
    settings: Mapping[str, str] = {}

    def call(self, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.python, *arguments],
            cwd=self.folder,
            env=clean_environment() | dict(self.settings) | settings,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def manage(self, *arguments: str, **settings: str) -> str:
        """Have `manage.py` do something, which succeeds."""
        ran = self.call("manage.py", *arguments, **settings)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def said(self, script: str, **settings: str) -> Any:  # noqa: ANN401 - what it calls its answer
        """Run a script in the project, and give its `answer`."""
        text = f"{PRELUDE}\n{dedent(script)}\nprint(json.dumps(answer))"
        ran = self.call("-c", text, **settings)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return json.loads(ran.stdout.splitlines()[-1])

    def with_settings(self, name: str, more: str) -> "Project":
        """Give the project with *more* settings, in a module of that name."""
        text = f"from shop.settings import *\n{dedent(more)}"
        (self.folder / "shop" / f"{name}.py").write_text(text)
        return attrs.evolve(self, settings={"DJANGO_SETTINGS_MODULE": f"shop.{name}"})

    @contextmanager
    def up(self, *options: str, **settings: str) -> Iterator[Path]:
        """Run `manage.py cronhare up`; gives its log."""
        log = self.folder / "log"
        command: list[str | Path] = [
            self.python,
            "manage.py",
            "cronhare",
            "up",
            "--no-web",
            *options,
        ]
        with log.open("wb") as file:
            up = subprocess.Popen(
                command,
                cwd=self.folder,
                env=clean_environment() | dict(self.settings) | settings,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            yield log
            up.send_signal(signal.SIGTERM)
            assert up.wait(timeout=60) == 0, log.read_text()
        finally:
            up.kill()
            up.wait()


@pytest.fixture(scope="module", params=["of these tests", "of another Python"])
def python(request: pytest.FixtureRequest) -> Path:
    if request.param == "of these tests":
        return Path(sys.executable)
    return environment_of(ROOT / "requirements" / "django.lock", *(OLDER if IS_NEW else NEWER))


def copy_of_the_example(folder: Path, python: Path) -> Project:
    left_out = ignore_patterns("var", "__pycache__", "*.sqlite3*")
    copytree(ROOT / "examples" / "django", folder, ignore=left_out)
    return Project(folder, python)


@pytest.fixture(scope="module")
def project(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose database has its tables and the ledger's."""
    project = copy_of_the_example(tmp_path_factory.mktemp("django") / "project", python)
    project.manage("migrate")
    project.manage("cronhare", "db", "upgrade")
    return project


def test_each_django_is_there_once(project: Project) -> None:
    major = project.said("answer = django.VERSION[0]")

    assert major == (6 if (project.python == Path(sys.executable)) is IS_NEW else 5)


#: Settings that cannot be, and what is said of them.
WRONG = {
    'TASKS["default"]["OPTIONS"]["app"] = "My shop"': ["TASKS: app: 'My shop' cannot name an app"],
    """
    TASKS["default"]["OPTIONS"] |= {"colour": "red", "schedules": {
        "late": {"task": "orders.tasks.nothing", "schedule": "@daily"},
        "more": {"task": "orders.tasks.confirm", "args": [1, 2], "schedule": "@daily"},
    }}
    """: [
        "colour is not known; there are app, calendars, database",
        "schedules.late: task: 'orders.tasks.nothing' is no task of this project",
        "schedules.more: orders.tasks.confirm(): too many positional arguments",
    ],
    """
    remind = TASKS["default"]["OPTIONS"]["schedules"]["remind-unpaid"]
    remind |= {"schedule": "61 * * * *", "overlap": "no"}
    DATABASES["default"]["NAME"] = ":memory:"
    """: [
        "no URL names the database 'default': set CRON_DATABASE_URL",
        "schedules.remind-unpaid: schedule: minute: 61 is outside 0-59",
        'schedules.remind-unpaid: overlap: "no" is not one of',
    ],
    'TASKS["default"]["BACKEND"] = "cronhare.django.DummyBackend"': [],
}


def test_its_own_checks_pass_and_find_all_that_is_wrong(project: Project) -> None:
    assert "no issues" in project.manage("check")
    for number, (settings, faults) in enumerate(WRONG.items()):
        ran = project.with_settings(f"wrong{number}", settings).call("manage.py", "check")

        assert ran.returncode == bool(faults)
        assert all(fault in ran.stderr for fault in faults), ran.stderr

    ran = project.with_settings("none", [*WRONG][-1]).call("manage.py", "cronhare", "up")
    assert ran.returncode == 1
    assert ran.stderr.startswith('CommandError: TASKS has no backend with "BACKEND"')


def test_what_is_enqueued_in_a_transaction_ends_as_that_does(project: Project) -> None:
    answer = project.said("""
        try:
            with transaction.atomic():
                order = Order.objects.create(email="ada@example.com")
                gone = tasks.confirm.enqueue(order.pk)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        try:
            tasks.confirm.get_result(gone.id)
            answer = ["is there"]
        except api.exceptions.TaskResultDoesNotExist:
            answer = ["is gone"]
        client = Client(headers={"host": "127.0.0.1"})
        placed = client.post("/orders", {"email": "ada@example.com"}).json()
        answer += [placed["order"], tasks.confirm.get_result(placed["result"]).status]
    """)

    assert answer == ["is gone", 1, "READY"]


#: The databases on servers, as SQLAlchemy and Django call them, and what ours need here.
SERVERS = {
    "mysql+pymysql": ("mysql", {}),
    "postgresql+psycopg": ("postgresql", {"options": "-c datestyle=ISO"}),
}


@pytest.mark.parametrize("server", ["empty_mysql", "empty_postgresql"])
def test_on_servers_as_well(
    server: str, vhost: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url: URL = request.getfixturevalue(server)
    engine, options = SERVERS[url.drivername]
    place = {
        "ENGINE": f"django.db.backends.{engine}",
        "NAME": url.database,
        "USER": url.username,
        "PASSWORD": url.password or "",
        "HOST": url.host,
        "PORT": str(url.port or ""),
        "OPTIONS": options,
    }
    project = copy_of_the_example(tmp_path / "project", Path(sys.executable))
    project = project.with_settings(
        "server",
        'import pymysql\npymysql.version_info = (2, 2, 7, "final", 0)\n'
        f'pymysql.install_as_MySQLdb()\nDATABASES = {{"default": {place!r}}}\n',
    )
    on_server = {"CRON_BROKER_URL": vhost}
    project.manage("migrate", **on_server)
    project.manage("cronhare", "db", "upgrade", **on_server)

    answer = project.said(
        """
        def place(fails):
            with transaction.atomic():
                order = Order.objects.create(email="ada@example.com")
                placed.append(tasks.confirm.enqueue(order.pk).id)
                assert not fails
        placed = []
        place(False)
        try:
            place(True)
        except AssertionError:
            pass
        place(False)
        kept, gone, last = placed
        answer = [tasks.confirm.get_result(kept).args, tasks.confirm.get_result(last).status]
        try:
            tasks.confirm.get_result(gone)
        except api.exceptions.TaskResultDoesNotExist:
            answer += ["is gone"]
        answer.append(kept)
        """,
        **on_server,
    )
    with project.up(**on_server):
        script = f'answer = ended(tasks.confirm.get_result("{answer.pop()}")).return_value'
        value = project.said(script, **on_server)

    assert answer == [[1], "READY", "is gone"]
    assert value == "ada@example.com"


def test_beside_a_ledger_elsewhere_it_is_enqueued_after_the_commit(project: Project) -> None:
    elsewhere = {"CRON_DATABASE_URL": f"sqlite:///{project.folder}/elsewhere.sqlite3"}
    project.manage("cronhare", "db", "upgrade", **elsewhere)

    answer = project.said(
        """
        answer = []
        try:
            with transaction.atomic():
                gone = tasks.count.enqueue()
                raise ZeroDivisionError
        except ZeroDivisionError:
            answer.append(gone.id)
        with transaction.atomic():
            result = tasks.count.enqueue()
            answer.append(result.id)
        answer.append(tasks.count.get_result(result.id).status)
        """,
        **elsewhere,
    )

    assert answer == ["", "", "READY"]


OLD = """
@task(takes_context=True)
def old(context): ...
"""

NEW = """
from cronhare import Retry

class OutOfStock(Exception):
    pass

@task(retry=Retry(2, first="1s"), executor="pool")
def fail(kind):
    raise OutOfStock("none is left") if kind else KeyError("none")

@task(takes_context=True, retry=Retry(2, first="1s"), aliases=["orders.more.old"])
def new(context):
    assert context.attempt == 2
    return context.task_result.id
"""


@pytest.fixture(scope="module")
def more(project: Project) -> Project:
    """The project with a module of tasks that is not called `tasks`."""
    (project.folder / "orders" / "more.py").write_text(f"from orders.tasks import task\n{OLD}")
    return project.with_settings("more", 'TASKS["default"]["OPTIONS"]["include"] = ["orders.more"]')


@pytest.fixture(scope="module")
def enqueued(more: Project) -> Enqueued:
    """What was enqueued before the worker that `running` has began, which has other code."""
    answer: Enqueued = more.said("""
        from orders.more import old
        def eight(priority):
            return [tasks.count.using(priority=priority).enqueue().id for _ in range(8)]
        answer = {"low": eight(-1), "high": eight(50), "old": old.enqueue().id}
        with transaction.atomic():
            order = Order.objects.create(email="bob@example.com")
            confirmed = tasks.confirm.using(key=f"confirm:{order.pk}").enqueue(order.pk)
        again = tasks.confirm.using(key=f"confirm:{order.pk}").enqueue(order.pk)
        later = tasks.count.using(run_after=timezone.now() + timedelta(hours=1)).enqueue()
        answer |= {"order": order.pk, "confirmed": confirmed.id, "again": again.id}
        answer |= {"later": later.id}
    """)
    (more.folder / "orders" / "more.py").write_text(f"from orders.tasks import task\n{NEW}")
    return answer


@pytest.fixture(scope="module")
def running(more: Project, enqueued: Enqueued) -> Iterator[Project]:
    """The project beside a worker that runs one task at a time."""
    assert enqueued["old"]
    with more.up("--concurrency", "1"):
        yield more


def test_what_has_a_higher_priority_is_begun_before_what_has_a_lower_one(
    running: Project, enqueued: Enqueued
) -> None:
    begun = running.said(f"""
        ids = {enqueued["low"]} + {enqueued["high"]}
        found = [ended(tasks.count.get_result(id)) for id in ids]
        answer = [each.id for each in sorted(found, key=lambda each: each.started_at)]
    """)

    low, high = (sorted(map(begun.index, enqueued[name])) for name in ("low", "high"))
    assert high[6] < low[1]  # 16 for 1: no more than one low is among them


def test_what_was_enqueued_before_is_run_once_and_told_of(
    running: Project, enqueued: Enqueued
) -> None:
    ran = running.said(f"""
        result = ended(tasks.confirm.get_result("{enqueued["confirmed"]}"))
        order = Order.objects.get(pk={enqueued["order"]})
        answer = {{
            "value": [result.return_value, result.args, result.attempts],
            "confirmed": result.started_at < order.confirmed_at < result.finished_at,
            "later": tasks.count.get_result("{enqueued["later"]}").status,
        }}
    """)

    mail = "".join(path.read_text() for path in (running.folder / "var" / "mail").iterdir())
    assert enqueued["again"] == enqueued["confirmed"]
    assert ran["value"] == ["bob@example.com", [enqueued["order"]], 1]
    assert ran["confirmed"]
    assert ran["later"] == "READY"
    assert len(re.findall("^To: bob@example.com$", mail, re.MULTILINE)) == 1


def test_tasks_of_each_kind_give_their_results(running: Project) -> None:
    answer = running.said("""
        import asyncio
        reminded = ended(tasks.remind_unpaid.enqueue(days=0)).return_value
        counted = ended(asyncio.run(tasks.count.aenqueue())).return_value
        orders = Order.objects.count()
        answer = [reminded == {"reminded": orders, "attempt": 1}, counted == orders]
    """)

    assert answer == [True, True]


def test_an_exception_is_told_with_its_class_and_traceback(running: Project) -> None:
    errors = running.said("""
        from orders.more import fail
        own, built_in, ours = fail.enqueue(True), fail.enqueue(False), tasks.confirm.enqueue(999)
        answer = [
            [e.exception_class_path, e.exception_class.__name__, e.traceback.splitlines()[-1]]
            for e in [*ended(own).errors, *ended(built_in).errors, *ended(ours).errors]
        ]
    """)

    own = ["orders.more.OutOfStock", "OutOfStock", "orders.more.OutOfStock: none is left"]
    built_in = ["builtins.KeyError", "KeyError", "KeyError: 'none'"]
    ours = ["cronhare.PermanentError", "PermanentError", "there is no order 999"]
    assert errors == [own, own, built_in, built_in, ours]


def test_a_task_with_another_name_since_is_run_and_tried_again(
    running: Project, enqueued: Enqueued
) -> None:
    answer = running.said(f"""
        from orders.more import new
        result = ended(new.get_result("{enqueued["old"]}"))
        answer = [result.attempts, result.return_value, len(result.errors)]
    """)

    assert answer == [2, enqueued["old"], 1]


def test_a_schedule_of_the_settings_is_one_of_the_ledger(project: Project) -> None:
    above = attrs.evolve(project, folder=project.folder.parent)
    ran = above.call("project/manage.py", "cronhare", "apply")
    assert ran.returncode == 0, ran.stderr

    shown = project.manage("cronhare", "schedules", "show", "remind-unpaid", "--json")

    schedule = json.loads(shown)["schedule"]
    assert schedule["params"] == {"args": [], "kwargs": {"days": 3}}
    assert (schedule["source"], schedule["queue"]) == ("shop", "cron_scheduler.low")


def test_tests_of_a_project_have_the_backends_of_django(project: Project) -> None:
    script = """
        Order.objects.create(email="eve@example.com")
        result = tasks.count.using(key="count").enqueue()
        answer = [result.status, result._return_value == Order.objects.count()]
        try:
            tasks.count.using(timeout="1s")
        except TypeError as error:
            answer.append("not timeout" in str(error))
    """
    answers = [
        project.with_settings(
            name.lower(), f'TASKS["default"]["BACKEND"] = "cronhare.django.{name}Backend"'
        ).said(script)
        for name in ("Immediate", "Dummy")
    ]

    assert answers == [["SUCCESSFUL", True, True], ["READY", False, True]]
