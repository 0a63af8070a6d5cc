"""Reading an app: a child imports it, and tells the tables that a jobs file would have.

So nothing that users write runs within our processes. The child has a bounded time, and what it has
begun ends with it.
"""

import hashlib
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Final

import attrs
import msgspec

from cronhare.adapters.addresses import parse_ledger
from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import LARGEST_FILE, FileVersion
from cronhare.domain.schedules.work import PLACE

from .reader import JobsFile, read_content, stamp_of, unreadable

#: Seconds in which an app is to be imported.
LONGEST: Final = 60.0

_DESCRIBE: Final = ("-m", "cronhare.entrypoints.python.describe")
_REFUSED: Final = 2
#: What is told of the end of what an import prints.
_LAST_CHARACTERS, _LAST_LINES = 4 * 1024, 5


class _Tables(msgspec.Struct):
    tables: dict[str, object]
    files: list[str]
    ledger: str | None = None


def read_app(
    place: str,
    *,
    policy: RetryPolicy,
    environment: Mapping[str, str],
    on_progress: OnProgress = unwatched,
    timeout: float = LONGEST,
) -> JobsFile:
    """Read an app in the current folder, as `read_jobs` does a file.

    Raises:
        JobsFileInvalid: with every fault at once; or the app cannot be imported.
    """
    if not re.match(PLACE, place):
        raise unreadable(place, "is no MODULE:APP, such as shop.jobs:app")
    found = _ask(place, environment, timeout)
    files = tuple(map(Path, found.files))
    file = read_content(
        found.tables, place, folder=Path.cwd(), policy=policy, on_progress=on_progress
    )
    try:
        ledger = None if found.ledger is None else parse_ledger(found.ledger)
    except ValueError as error:
        raise unreadable(place, f"its App(ledger=…): the database URL {error}") from error
    # The code counts too: a worker that was not reloaded goes on with what it has imported.
    code = sorted(hashlib.sha256(path.read_bytes()).digest() for path in files if path.is_file())
    digest = hashlib.sha256(b"".join([file.version.digest.encode(), *code])).hexdigest()[:12]
    version = FileVersion(file.source, digest)
    return attrs.evolve(file, files=files, stamp=stamp_of(*files), version=version, ledger=ledger)


def _ask(place: str, environment: Mapping[str, str], timeout: float) -> _Tables:
    status, tail = None, deque[bytes](maxlen=2)
    with TemporaryFile() as answer:
        child = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, *_DESCRIBE, place],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # a Ctrl-C is for us to handle
        )
        draining = Thread(target=_drain, args=(child.stderr, tail), daemon=True)
        draining.start()
        try:
            with suppress(subprocess.TimeoutExpired):
                status = child.wait(timeout)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        draining.join(1.0)  # a daemon that it has begun may keep the pipe open
        answer.seek(0)
        said = answer.read(LARGEST_FILE + 1)
    printed = b"".join(tail).decode(errors="backslashreplace")[-_LAST_CHARACTERS:].splitlines()
    end = "\n".join(["; the last that it printed:", *printed[-_LAST_LINES:]]) if printed else ""
    match status:
        case None:
            why = "what takes so long belongs into a task, and not into a module"
            text = f"was not imported within {timeout:g} s: {why}{end}"
        case 0 if len(said) > LARGEST_FILE:
            text = f"has tables of more than {LARGEST_FILE // 2**20} MiB"
        case 0:
            try:
                return msgspec.json.decode(said, type=_Tables)
            except msgspec.DecodeError as error:  # its module ended the interpreter, or wrote there
                text = f"gave an answer that cannot be read: {error}{end}"
        case status if status == _REFUSED and said:
            text = said.decode(errors="backslashreplace")
        case status if status < 0:
            text = f"its import was ended by signal {-status}: {signal.strsignal(-status)}{end}"
        case status:
            text = f"its import ended the interpreter with status {status}{end}"
    raise unreadable(place, text)


def _drain(pipe: IO[bytes], tail: "deque[bytes]") -> None:
    with pipe:
        tail.extend(iter(partial(os.read, pipe.fileno(), 2**16), b""))
