"""Django's admin on the results and the schedules of Celery, kept in SQLite; see `peers`.

It prints the cookie of a session of its administrator, then serves.
"""

# ruff: noqa: PLC0415 - Django is set up before its models can be imported

import sys
import uuid
from datetime import UTC, datetime, timedelta
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django
from django.conf import settings
from django.urls import path


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass


def main(port: int, folder: str, results: int, schedules: int) -> None:
    settings.configure(
        SECRET_KEY="x",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        USE_TZ=True,
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/django.sqlite3"}
        },
        INSTALLED_APPS=[
            "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
            "django.contrib.sessions", "django.contrib.messages", "django_celery_results",
            "django_celery_beat",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[{
            "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
            "OPTIONS": {"context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]},
        }],
        STATIC_URL="/static/",
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    )  # fmt: skip
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    _fill(results, schedules)
    from django.contrib import admin
    from django.core.wsgi import get_wsgi_application

    urlpatterns.append(path("admin/", admin.site.urls))
    application = get_wsgi_application()
    print(_cookie(), flush=True)
    make_server("127.0.0.1", port, application, Server, Quiet).serve_forever()


urlpatterns: list[object] = []


def _fill(results: int, schedules: int) -> None:
    from django.db import connection, transaction
    from django_celery_beat.models import CrontabSchedule, PeriodicTask

    now, step = datetime.now(UTC), timedelta(seconds=0.6)
    columns = (
        "task_id", "task_name", "periodic_task_name", "task_args", "task_kwargs", "status",
        "worker", "content_type", "content_encoding", "result", "date_created", "date_done",
    )  # fmt: skip

    def row(number: int) -> tuple[str, ...]:
        at = str((now - (results - number) * step).replace(tzinfo=None))
        return (
            str(uuid.UUID(int=number)), f"reports.task_{number % 120}",
            f"customer-{number % schedules:06d}", "()", f'{{"customer": {number % schedules}}}',
            "FAILURE" if number % 80 == 11 else "SUCCESS", "celery@worker-01",
            "application/json", "utf-8", '"done"', at, at,
        )  # fmt: skip

    # Not by its models: a million of them take minutes.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO django_celery_results_taskresult ({', '.join(columns)})"
            f" VALUES ({', '.join(['%s'] * len(columns))})",
            map(row, range(results)),
        )
    crontab = CrontabSchedule.objects.create(minute="0", hour="4")
    PeriodicTask.objects.bulk_create(
        [
            PeriodicTask(
                name=f"customer-{number:06d}", task=f"reports.task_{number % 120}", crontab=crontab
            )
            for number in range(schedules)
        ],
        batch_size=5_000,
    )


def _cookie() -> str:
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore

    user = User.objects.create_superuser("admin", "admin@example.net", "admin")
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return f"sessionid={session.session_key}"


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
