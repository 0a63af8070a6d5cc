"""`manage.py cronhare …`: the commands of cronhare, with the app and the ledger of this project."""

import argparse
import os
import sys
from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from cronhare.django import jobs
from cronhare.entrypoints.settings.sources import find_setting

_RUN = "import sys; from cronhare.entrypoints.cli.app import main; sys.argv[0] = 'cronhare'; main()"


class Command(BaseCommand):
    """Becomes the command: what runs for long has nothing of the project in its memory."""

    help = "Run a command of cronhare: up, worker, plan, executions list, …"
    requires_system_checks: ClassVar[list[str]] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("command", nargs=argparse.REMAINDER, help="and its options")

    def handle(self, *_: object, command: list[str], **__: Any) -> None:  # noqa: ANN401 - all options
        try:
            queues = ",".join(f"{queue}:{weight}" for queue, weight in jobs.weights().items())
            usual = {"app": jobs.PLACE, "database_url": jobs.ledger(), "queues": queues}
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        for name, value in usual.items():
            if value and not find_setting(name, ""):
                os.environ[f"CRON_{name.upper()}"] = value
        # Wherever it was called: the project is where `manage.py` is.
        paths = (sys.path[0], os.environ.get("PYTHONPATH"))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-c", _RUN, *(command or ["--help"])])  # noqa: S606
