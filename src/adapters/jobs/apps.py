"""Reading an app: a child imports it, and tells the tables that a jobs file would have.

So nothing that users write runs within our processes. The child has a bounded time, and its answer
a bounded size; what it has begun ends with it.
"""

import hashlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import msgspec

from cronhare.adapters.addresses import parse_ledger
from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import LARGEST_FILE, FileVersion
from cronhare.domain.schedules.python_call import PLACE, AppPlace

from .reader import JobsFile, read_content, stamp_of, unreadable

#: Seconds in which an app is to be imported.
LONGEST: Final = 60.0

_DESCRIBE: Final = ("-m", "cronhare.entrypoints.python.describe")
_REFUSED: Final = 2

#: What is kept of the end of what an import prints, and so many of its last lines are told.
_LAST_BYTES, _LAST_LINES = 4 * 1024, 5


@attrs.frozen
class _Answer:
    """How a child ended, what it answered and the end of what it printed; None: too late."""

    status: int | None
    said: bytes
    printed: bytes


class _Tables(msgspec.Struct):
    tables: dict[str, object]
    files: list[str]
    ledger: str | None = None


def read_app(
    place: AppPlace,
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
    if not re.match(PLACE, place.text):
        raise unreadable(place, "is no MODULE:APP, such as shop.jobs:app")
    found = _tables(place, _ask(place, environment, timeout), timeout)
    files = tuple(map(Path, found.files))
    file = read_content(
        found.tables, place, folder=Path.cwd(), policy=policy, on_progress=on_progress
    )
    try:
        ledger = None if found.ledger is None else parse_ledger(found.ledger)
    except ValueError as error:
        raise unreadable(place, f"its App(ledger=…): the database URL {error}") from error
    return attrs.evolve(
        file,
        files=files,
        stamp=stamp_of(*files),
        version=_with_code(file.version, files),
        ledger=ledger,
    )


def _with_code(said: FileVersion, files: Iterable[Path]) -> FileVersion:
    """Sum up the code as well: a worker that was not reloaded goes on with what it has imported."""
    found = [said.digest.encode()]
    for path in files:
        with suppress(OSError):  # it is gone meanwhile
            found.append(hashlib.sha256(path.read_bytes()).digest())
    return FileVersion(said.source, hashlib.sha256(b"".join(sorted(found))).hexdigest()[:12])


def _tables(place: AppPlace, answer: _Answer, timeout: float) -> _Tables:
    printed = answer.printed.decode(errors="backslashreplace").splitlines()[-_LAST_LINES:]
    end = "\n".join(["; the last that it printed:", *printed]) if printed else ""
    match answer.status:
        case None if len(answer.said) > LARGEST_FILE:
            raise unreadable(place, f"has tables of more than {LARGEST_FILE // 2**20} MiB")
        case None:
            why = "what takes so long belongs into a task, and not into a module"
            text = f"was not imported within {timeout:g} s: {why}{end}"
        case 0:
            try:
                return msgspec.json.decode(answer.said, type=_Tables)
            except msgspec.DecodeError as error:
                text = f"gave an answer that cannot be read: {error}{end}"
        case status if status == _REFUSED and answer.said:
            text = answer.said.decode(errors="backslashreplace")
        case status if status < 0:
            text = f"its import was ended by signal {_name(-status)}{end}"
        case status:
            text = f"its import ended the interpreter with status {status}{end}"
    raise unreadable(place, text)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # of those for real time some have none
        return str(number)


def _ask(place: AppPlace, environment: Mapping[str, str], timeout: float) -> _Answer:
    try:
        child = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, *_DESCRIBE, place.text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # a Ctrl-C is for us to handle
        )
    except OSError as error:
        text = f"this machine begins no process to import it: {error.strerror}"
        raise unreadable(place, text) from error
    try:
        return _read(child, time.monotonic() + timeout)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def _read(child: "subprocess.Popen[bytes]", until: float) -> _Answer:
    """Read to the child's end: what it has begun may keep its pipes open."""
    said, printed, ended = bytearray(), bytearray(), None
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, said)  # type: ignore[arg-type]
        selector.register(child.stderr, selectors.EVENT_READ, printed)  # type: ignore[arg-type]
        while selector.get_map() and time.monotonic() < until and len(said) <= LARGEST_FILE:
            ended = child.poll()
            ready = selector.select(0 if ended is not None else 0.05)
            for key, _ in ready:
                chunk = os.read(key.fd, 2**16)
                if not chunk:
                    selector.unregister(key.fileobj)
                key.data.extend(chunk)
            del printed[:-_LAST_BYTES]
            if ended is not None and not ready:
                break
    if ended is None and len(said) <= LARGEST_FILE:
        with suppress(subprocess.TimeoutExpired):
            ended = child.wait(max(0.0, until - time.monotonic()))
    return _Answer(ended, bytes(said), bytes(printed))
