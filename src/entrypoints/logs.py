"""Log lines: the seeds' for people, JSON for machines."""

import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from cronhare.application.logs import SUCCESS
from cronhare.domain.messages import iso_ms

LEVELS = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    SUCCESS: "SUCCESS",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "ERROR",
}

COLOURS = {"DEBUG": 90, "INFO": 36, "SUCCESS": 32, "WARN": 33, "ERROR": 31}  # as in S1


class SeedsFormatter(logging.Formatter):
    """`2025-12-12T12:00:00.000Z [INFO] [type=report, id=25, scheduler_id=16] Processing task`."""

    def __init__(self, *, colours: bool = False) -> None:
        """*colours* are for terminals only."""
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Write a line, and a stack trace below it."""
        time = iso_ms(datetime.fromtimestamp(record.created, UTC))
        child = getattr(record, "child", None)
        if child is not None:
            return f"{time} [{child}] {record.getMessage()}"
        level = LEVELS.get(record.levelno, record.levelname)
        context = getattr(record, "context", None) or {}
        shown = ", ".join(f"{name}={value}" for name, value in context.items())
        line = f"{time} {self._paint(f'[{level}]', level)}{f' [{shown}]' if shown else ''} "
        return line + record.getMessage() + self._stack(record, time, level)

    def _stack(self, record: logging.LogRecord, time: str, level: str) -> str:
        stack = _stack_of(self, record)
        if not stack:
            return ""
        head = f"\n{time} {self._paint(f'[{level}]', level)} Stack trace:\n"
        return head + self._paint(stack.rstrip(), level)

    def _paint(self, text: str, level: str) -> str:
        return f"\x1b[{COLOURS[level]}m{text}\x1b[0m" if self._colours else text


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a line with all that is known."""
        line = {
            "time": iso_ms(datetime.fromtimestamp(record.created, UTC)),
            "level": LEVELS.get(record.levelno, record.levelname),
            "logger": record.name,
            "action": getattr(record, "action", None),
            "message": record.getMessage(),
            "child": getattr(record, "child", None),
            **(getattr(record, "context", None) or {}),
            "stack": _stack_of(self, record),
        }
        said = {name: value for name, value in line.items() if value is not None}
        return msgspec.json.encode(said, enc_hook=str).decode()


def configure(*, style: str, level: str, stream: TextIO | None = None) -> None:
    """Send every log line to *stream*, standard error by default."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    plain = SeedsFormatter(colours=stream.isatty())
    handler.setFormatter(JsonFormatter() if style == "json" else plain)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # libraries speak up only when something is wrong
    # What these notice, we say in our own words, once: on a first start pika would warn of each of
    # the forty objects that are not there yet, and of a broker that is away five times a try.
    for library in ("pika", "aiormq"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    logging.getLogger("cronhare").setLevel("WARNING" if level == "WARN" else level)


def _stack_of(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if record.exc_info:
        return formatter.formatException(record.exc_info)
    stack = getattr(record, "stack", None)
    return stack if isinstance(stack, str) else None
