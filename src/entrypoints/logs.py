"""Log lines: text for people (S1.16 in docs/compatibility.md), JSON for machines.

One line of a record is one line of the log: text from rows, messages and tasks is escaped here, for
both forms, and nowhere else.
"""

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, TextIO

from cronhare.application.logs import SUCCESS
from cronhare.domain.texts.moments import iso_ms
from cronhare.domain.texts.printable import printable, shortened

LEVELS = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    SUCCESS: "SUCCESS",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "ERROR",
}

COLOURS = {"DEBUG": 90, "INFO": 36, "SUCCESS": 32, "WARN": 33, "ERROR": 31}

#: Begins a stack's lines, so that none can pass for a log line of ours.
INDENT = "    "

#: Characters that are logged of a message, of a value in brackets and of a stack.
LONGEST_MESSAGE, LONGEST_VALUE, LONGEST_STACK = 16_384, 256, 32_768

#: Seconds after which a line of a batch is written.
WITHIN: Final = 0.1

#: With so many lines waiting, whoever logs writes them: a slow reader slows the process down.
MOST_WAITING: Final = 5_000

#: Bytes of one write. Another process may write into the same pipe; up to here (`PIPE_BUF`) the
#: kernel keeps a write whole.
ONE_WRITE: Final = 4_096


class _Formatter(logging.Formatter):
    """What both forms share: the node, once it is named, and the parts of a record."""

    node: str | None = None

    def _context(self, record: logging.LogRecord) -> Mapping[str, object]:
        context = getattr(record, "context", None) or {}
        if self.node is not None and "execution" in context:
            return {**context, "node": self.node}
        return context

    def _message(self, record: logging.LogRecord) -> str:
        return shortened(record.getMessage(), LONGEST_MESSAGE)

    def _stack(self, record: logging.LogRecord) -> str | None:
        stack = getattr(record, "stack", None)
        if record.exc_info:
            stack = self.formatException(record.exc_info)
        return shortened(stack, LONGEST_STACK) if isinstance(stack, str) else None


class TextFormatter(_Formatter):
    """`2025-12-12T12:00:00.000Z [INFO] [type=report, id=25, scheduler_id=16, …] Processing task`.

    A child's line is `… [Report:RefreshUserToken:12345] [execution=7, …] its text`.
    """

    def __init__(self, *, colours: bool = False) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        time = iso_ms(datetime.fromtimestamp(record.created, UTC))
        child = getattr(record, "child", None)
        level = LEVELS.get(record.levelno, record.levelname)
        head = self._paint(f"[{level}]", level) if child is None else f"[{printable(child)}]"
        context = self._context(record)
        shown = ", ".join([f"{name}={value}" for name, value in context.items()])
        if len(shown) > LONGEST_VALUE or not shown.isprintable():  # seldom: each value by itself
            shown = ", ".join(f"{name}={_value(value)}" for name, value in context.items())
        parts = (time, head, f"[{shown}]" if shown else "", printable(self._message(record)))
        return " ".join(filter(None, parts)) + self._below(record, level)

    def _below(self, record: logging.LogRecord, level: str) -> str:
        stack = self._stack(record)
        if not stack:
            return ""
        lines = stack.replace("\r\n", "\n").rstrip().split("\n")
        shown = "\n".join(f"{INDENT}{printable(line)}" for line in lines)
        return f"\n{self._paint(shown, level)}"

    def _paint(self, text: str, level: str) -> str:
        return f"\x1b[{COLOURS[level]}m{text}\x1b[0m" if self._colours else text


class JsonFormatter(_Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": iso_ms(datetime.fromtimestamp(record.created, UTC)),
            "level": LEVELS.get(record.levelno, record.levelname),
            "logger": record.name,
            "action": getattr(record, "action", None),
            "message": self._message(record),
            "child": getattr(record, "child", None),
            **self._context(record),
            "node": self.node,
            "stack": self._stack(record),
        }
        from .json_text import as_json  # noqa: PLC0415 - text does without JSON

        said = {name: value for name, value in line.items() if value is not None}
        return as_json(said, encode=str)


class LineHandler(logging.Handler):
    """Writes the lines to a stream: each at once, or *in_batches* on a thread of its own.

    In batches a line is written within `WITHIN` seconds and before the process exits; a warning
    before the call returns, with all that was logged before it. Only `kill -9` loses lines.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.in_batches = False
        self.stream = stream
        self._waiting = deque[logging.LogRecord]()
        self._rings = threading.Event()
        self._thread: threading.Thread | None = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Take a record. Only who writes takes the lock: a deque needs none."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        self._waiting.append(record)
        can_wait = self.in_batches and record.levelno < logging.WARNING
        if not can_wait or len(self._waiting) > MOST_WAITING:
            self.flush()
        elif not self._rings.is_set():
            self._rings.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_batches, daemon=True, name="log")
                self._thread.start()

    def flush(self) -> None:
        self.acquire()
        try:
            self._rings.clear()
            lines, size = list[str](), 0
            while self._waiting:
                line = self._line(self._waiting.popleft())
                most = len(line) if line.isascii() else 4 * len(line)  # bytes, in UTF-8
                if size + most > ONE_WRITE:
                    self._write(lines)
                    lines, size = [], 0
                lines.append(line)
                size += most
            self._write(lines)
        finally:
            self.release()

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return f"{self.format(record)}\n"
        except Exception:  # noqa: BLE001 - told as `logging` tells it; the next line is written
            self.handleError(record)
            return ""

    def _write(self, lines: list[str]) -> None:
        with suppress(OSError, ValueError):  # nobody reads any more, or the stream is closed
            self.stream.write("".join(lines))
            self.stream.flush()

    def _write_batches(self) -> None:
        while True:
            self._rings.wait()
            time.sleep(WITHIN)
            self.flush()


def configure(*, style: str, level: str, stream: TextIO | None = None) -> None:
    stream = stream or sys.stderr
    root = logging.getLogger()
    known = (one for one in root.handlers if isinstance(one, LineHandler) and one.stream is stream)
    handler = next(known, None) or LineHandler(stream)
    plain = TextFormatter(colours=stream.isatty())
    handler.setFormatter(JsonFormatter() if style == "json" else plain)
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # libraries speak up only when something is wrong
    # We log what these notice, once: on a first start pika would warn of each of the forty objects
    # that are not there yet, and five times a try of a broker that is away.
    for library in ("pika", "aio_pika", "aiormq", "opentelemetry", "uvicorn"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    # Our lines do not show where they were logged, nor by which thread: that is half of their cost.
    logging._srcfile = None  # noqa: SLF001 - "Optimization" in its manual
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    set_level(level)


def set_level(level: str) -> None:
    logging.getLogger("cronhare").setLevel("WARNING" if level == "WARN" else level)


def write_in_batches() -> None:
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            handler.in_batches = True


def sign_as(node: str) -> None:
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _Formatter):
            handler.formatter.node = node


def _value(value: object) -> str:
    return printable(shortened(str(value), LONGEST_VALUE))
