"""For tasks that are written in Python: their parameters, and reports to the worker.

    from cronhare import task

    def main(params):
        for done, user in enumerate(users := params["users"], start=1):
            refresh(user)
            task.progress(done / len(users), f"user {user}")
        return {"users": len(users)}

    if __name__ == "__main__":
        task.run(main)

All of it also works when the script is run by hand: parameters then come from stdin (`{}` if that
is a terminal), and reports go nowhere. `main` may be an `async def`. Imports only the standard
library, and late, so that it costs a task next to nothing.
"""

import os
import stat
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from datetime import datetime, timedelta

__all__ = [
    "PermanentError",
    "RateLimited",
    "TransientError",
    "attempt",
    "due_at",
    "execution_id",
    "execution_key",
    "fail",
    "fence",
    "finish",
    "group_id",
    "language_id",
    "missed",
    "params",
    "previous_success",
    "progress",
    "retry_count",
    "run",
    "schedule",
    "set_result",
    "snooze",
    "topic",
    "user_id",
]

# A message must fit into 64 KiB; a character may grow to six bytes in JSON.
_LONGEST_TEXT = 3 * 1024
_LARGEST_RESULT = 64 * 1024

# What classes with fields have: dataclasses, TypedDicts, NamedTuples, attrs and msgspec classes.
_FIELDS = ("__dataclass_fields__", "__total__", "_fields", "__attrs_attrs__", "__struct_fields__")

# What a request for a report has beside what its task asks for.
_OF_REPORTS = {"controller", "options_interface"}

# How alike a name is to another one that was meant: limt to limit, not region to reason.
_NEAR = 0.75
_MOST_COMPARED = 100

# Of an exception's class and its bases.
_MOST_TYPES = 8


class _TaskError(Exception):
    error_class: str

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message or type(self).__name__)
        self.code = code


class TransientError(_TaskError):
    """It may work later: try again."""

    error_class = "transient"


class PermanentError(_TaskError):
    """It will never work like this: do not try again."""

    error_class = "permanent"


class RateLimited(_TaskError):
    """A server limits the rate: try again, not before *retry_after*.

    That is seconds, or the text of a `Retry-After` header: seconds, or a date.
    """

    error_class = "rate-limited"

    def __init__(
        self, message: str = "", *, retry_after: float | str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class _SimulatedFailure(RuntimeError):
    """The failure of `SIMULATE_FAILURE` (S0.11 in docs/compatibility.md)."""


def params() -> Any:  # noqa: ANN401 - any JSON value
    """The parameters of this run, as any JSON value."""
    text = _params_text().strip()
    if text in {"", "{}"}:
        return {}
    import json  # noqa: PLC0415 - not every task asks

    return json.loads(text)


def execution_id() -> int | None:
    """The id of the execution, the same in each of its attempts; None by hand."""
    return _number("CRON_EXECUTION_ID")


def execution_key() -> str | None:
    """The name of the due instant, like `cron-2025-12-12-8-0`; None by hand.

    With the schedule it makes a good idempotency key.
    """
    return _variables().get("CRON_EXECUTION_KEY")


def attempt() -> int:
    """The number of this attempt, from 1 on."""
    return int(_variables().get("CRON_ATTEMPT") or 1)


def retry_count() -> int:
    """How many earlier attempts ended badly."""
    return int(_variables().get("RETRY_COUNT") or 0)


def due_at() -> "datetime | None":
    """When the run was due, in UTC; None by hand."""
    return _moment("CRON_DUE_AT")


def missed() -> int:
    """How many missed due instants this run makes up for, its own among them if that was missed.

    0 of a run on time, and by hand; 2 of the one run after two mornings without a scheduler. It is
    the same in each attempt. Instants that nothing makes up for, as the misfire policy has it, do
    not count; of more than 10,000 the number is too low.
    """
    return int(_variables().get("CRON_MISSED") or 0)


def previous_success() -> "datetime | None":
    """When the schedule's last run before this one that succeeded was due, in UTC.

    None if there was none, by hand, and in a command: a function of an app that takes a `Context`
    is told.
    """
    return _moment("CRON_PREVIOUS_SUCCESS")


def schedule() -> str | None:
    """The name of the schedule; None by hand."""
    return _variables().get("CRON_SCHEDULE")


def fence() -> int:
    """The fencing token: a later attempt of this execution, or execution, has a larger one.

    A store that remembers the largest token it has seen, and refuses smaller ones, is safe from an
    attempt that was taken for lost and still writes. 0 by hand.
    """
    return int(_variables().get("CRON_FENCE") or 0)


def user_id() -> int | None:
    """The `user_id` of the schedule's row, if it has one."""
    return _number("CRON_USER_ID")


def group_id() -> int | None:
    """The `group_id` of the schedule's row, if it has one."""
    return _number("CRON_GROUP_ID")


def language_id() -> int | None:
    """The `language_id` of the schedule's row, if it has one."""
    return _number("CRON_LANGUAGE_ID")


def topic() -> str | None:
    return _variables().get("CRON_TOPIC")


def _moment(name: str) -> "datetime | None":
    from datetime import datetime  # noqa: PLC0415 - see params

    text = _variables().get(name)
    return datetime.fromisoformat(text) if text else None


def _number(name: str) -> int | None:
    text = _variables().get(name)
    return int(text) if text else None


def progress(fraction: float, text: str | None = None) -> None:
    """Report how far the work is, and perhaps with what. The task's timeout starts anew.

    Of *text* 200 characters are shown, by `cronhare executions show` and `list`.
    """
    message: dict[str, object] = {"progress": float(fraction)}
    if text is not None:
        message["text"] = str(text)[:_LONGEST_TEXT]
    _send(message)


def set_result(value: object) -> None:
    """Give what the work has made, as JSON: the ledger keeps the last one, 64 KiB at most.

    Dataclasses and the like, times, sets and decimals are written as JSON has them.

    Raises:
        TypeError: *value* is nothing that JSON has.
        ValueError: it is too large, or has a number that is none.
    """
    _send({"result": _checked_result(value)})


def finish() -> None:
    """Report that the work is done, as `run` does."""
    _write(b'{"finish":%d}\n' % os.getpid())  # as `_send` does, for each run


def snooze(wait: "float | timedelta") -> NoReturn:
    """End the process, and be run again after *wait*: seconds, or a timedelta. No retry is spent.

    It may be asked for as often as is needed, until the run expires (`expires` of its schedule);
    each time 1 second to 7 days are waited. What the task has written and set as result is kept.

    Raises:
        ValueError: *wait* is less than nothing, or no number.
    """
    seconds = float(wait.total_seconds() if hasattr(wait, "total_seconds") else wait)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"cannot be snoozed for {seconds:g} s")
    print(f"snoozed for {seconds:g} s", file=sys.stderr)  # noqa: T201 - see fail
    _send({"snooze": seconds})
    sys.exit(0)


def fail(
    message: str,
    *,
    code: str | None = None,
    permanent: bool = False,
    retry_after: float | str | None = None,
) -> NoReturn:
    """Report that the work cannot be done, and end the process with code 1.

    *code* (`ETIMEDOUT`, `AUTH_INVALID` …) decides the class of the failure, unless it is
    *permanent* or a rate limit that ends in *retry_after* seconds, or at that date of HTTP.
    """
    error_class = "permanent" if permanent else None
    if retry_after is not None and not permanent:
        error_class = "rate-limited"
    print(message, file=sys.stderr)  # noqa: T201 - for the log, and for a run by hand
    _send_failure(message, code=code, error_class=error_class, retry_after=retry_after)
    sys.exit(1)


def run(main: Callable[[Any], object]) -> NoReturn:
    """Call `main(params)` and end the process: with 0 if it returns, with 1 if it raises.

    An `async def main` is run by `asyncio.run`; what nothing would run, as a generator, is refused.
    An exception is reported with its class, code and stack trace, and with its `retry_after` (as
    of `RateLimited`) or `retry_after_ms`; `SystemExit` keeps its meaning.
    What it returns is the run's result, see `set_result`. If its parameter is annotated with a
    dataclass, or a class of the kind (a TypedDict, NamedTuple, attrs or msgspec class), the
    parameters are checked and converted; those that do not fit are a permanent failure, and so is
    a name that is probably a slip for one of the class that is not given. Other names that the
    class does not have are told on stderr, and count for nothing (a TypedDict is open to them).
    With `SIMULATE_FAILURE=true` in the environment the task fails without being called.
    """
    sys.exit(perform(lambda: main(_params_for(main))))


def perform(call: Callable[[], object]) -> int:
    """Call it, report how that ended, and give the exit status, as `run` does."""
    try:
        if os.environ.get("SIMULATE_FAILURE") == "true":
            raise _SimulatedFailure("Simulated failure for testing")  # noqa: TRY301 - reported as any other
        result = call()
        if result is not None:
            result = _run_if_async(result)
    except Exception as error:  # noqa: BLE001 - any is the task's failure
        _report(error)
        return 1
    if result is not None:
        _give(result)
    finish()
    return 0


def begin_anew(ipc: int) -> None:
    """In a fork of a process that has this module: report to the pipe *ipc*."""
    global _ipc  # noqa: PLW0603 - that of the process before
    _ipc = ipc


class Given:
    """What a run is told in a child that has several, at once or in turn."""

    __slots__ = ("params", "send", "variables")

    def __init__(
        self, variables: Mapping[str, str], params: str, send: Callable[[bytes], None]
    ) -> None:
        self.variables, self.params, self.send = variables, params, send


def ask(given: Callable[[], Given | None]) -> None:
    """In a child that has several runs: *given* gives what is told of the one that asks."""
    global _given  # noqa: PLW0603 - see `begin_anew`
    _given = given


def _variables() -> Mapping[str, str]:
    given = _given()
    return os.environ if given is None else given.variables


def _run_if_async(result: object) -> object:
    """Run a coroutine; refuse what would never run, so that it does not look like a success."""
    if isinstance(result, Coroutine):
        import asyncio  # noqa: PLC0415 - see params

        result = asyncio.run(result)
    # What can be closed, as a file or a cursor can, did its work when it was made.
    is_lazy = hasattr(result, "__next__") and not hasattr(result, "close")
    if is_lazy or isinstance(result, Awaitable | Generator | AsyncIterator):
        text = f"the task returned a {type(result).__name__}, which nothing runs: "
        advice = "`await` what is async, loop over the rest, and use `return`, not `yield`"
        raise PermanentError(text + advice, code="NOT_RUNNABLE")
    return result


def _params_for(main: Callable[..., object]) -> Any:  # noqa: ANN401 - any JSON value, or a class
    kind = _kind_of_params(main)
    if kind is None:
        return params()
    import msgspec  # noqa: PLC0415 - only those who ask for it wait for it

    given = params()
    _look_at_names(given, kind)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise PermanentError(f"params: {error}", code="PARAMS_INVALID") from error


def _look_at_names(given: object, kind: type) -> None:
    """Refuse a slip of the hand among the names, and tell those that count for nothing.

    A name that is near to none may be for the schedule's concurrency key. A TypedDict is open to
    others, and an event may tell more than its listener wants to know.
    """
    import msgspec.inspect  # noqa: PLC0415 - see _params_for

    info = msgspec.inspect.type_info(kind)
    if not isinstance(info, msgspec.inspect.DataclassType | msgspec.inspect.StructType):
        return
    if not isinstance(given, dict) or topic() is not None:
        return
    known = [field.encode_name for field in info.fields]
    unknown = sorted(given.keys() - {*known, *_OF_REPORTS, getattr(info, "tag_field", None)})
    if not unknown:
        return
    has = f"{kind.__name__} has {', '.join(known) or 'none'}"
    if (slip := _slip(unknown, [name for name in known if name not in given])) is not None:
        name, meant = slip
        text = f"params: {name!r} is not known; did you mean {meant}? {has}"
        raise PermanentError(text, code="PARAMS_INVALID")
    are = "is" if len(unknown) == 1 else "are"
    text = f"params: {', '.join(map(repr, unknown))} {are} not known; {has}"
    print(text[:_LONGEST_TEXT], file=sys.stderr)  # noqa: T201 - see fail


def _slip(unknown: Sequence[str], free: Sequence[str]) -> tuple[str, str] | None:
    """Find a name that was probably meant as another one, which is not given."""
    from difflib import get_close_matches  # noqa: PLC0415 - see params

    for name in unknown[:_MOST_COMPARED]:
        if close := get_close_matches(name, free, n=1, cutoff=_NEAR):
            return name, close[0]
    return None


def _kind_of_params(main: Callable[..., object]) -> type | None:
    """The class with fields that *main* wants its parameters as, if it does."""
    code = getattr(main, "__code__", None)
    if code is None or not code.co_argcount or not getattr(main, "__annotations__", None):
        return None
    from typing import get_type_hints  # noqa: PLC0415 - see params

    kind = get_type_hints(main).get(code.co_varnames[0])
    return kind if isinstance(kind, type) and any(hasattr(kind, mark) for mark in _FIELDS) else None


def _give(result: object) -> None:
    """Report what the task returned. It has done its work: what cannot be kept fails nothing."""
    try:
        set_result(result)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"what it returned is not kept: {error}"
        print(problem, file=sys.stderr)  # noqa: T201 - see fail
        _send({"result_problem": problem[:_LONGEST_TEXT]})


def _checked_result(value: object) -> Any:  # noqa: ANN401 - any JSON value
    import json  # noqa: PLC0415 - see params

    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
    )
    size = len(text.encode("utf-8", "replace"))
    if size > _LARGEST_RESULT:
        raise ValueError(f"{size} bytes of JSON, {_LARGEST_RESULT} are allowed")
    return json.loads(text)


def _plain(value: object) -> object:
    """Make JSON values of a dataclass, a time, a set and the like; a model of Pydantic, too."""
    import msgspec  # noqa: PLC0415 - see _params_for

    return msgspec.to_builtins(value, enc_hook=_plain_model)


def _plain_model(value: Any) -> object:  # noqa: ANN401 - what msgspec does not know
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _report(error: Exception) -> None:
    # One that the task raises on purpose is a sentence; an unexpected one needs its traceback.
    stack = None
    if not isinstance(error, _TaskError):
        import traceback  # noqa: PLC0415 - a task that works needs none

        stack = "".join(traceback.format_exception(_without_our_frames(error))).rstrip()
    print(stack or _message_of(error), file=sys.stderr)  # noqa: T201 - see fail
    _send_failure(
        _message_of(error),
        code=_code_of(error),
        error_class=getattr(error, "error_class", None),
        types=_types_of(error),
        retry_after=_wait_of(error),
        stack=stack,
    )


def _without_our_frames(error: Exception) -> Exception:
    """Let its traceback begin where the task does."""
    first = error.__traceback__
    while first and _is_ours(first.tb_frame.f_globals.get("__package__")):
        first = first.tb_next
    return error.with_traceback(first) if first else error


def _is_ours(package: object) -> bool:
    return isinstance(package, str) and package.partition(".")[0] == __package__


def _types_of(error: Exception) -> list[str]:
    """The names of its class and of the bases by which a jobs file may know it."""
    general = (Exception, BaseException, object, _TaskError)
    return [each.__name__ for each in type(error).__mro__ if each not in general][:_MOST_TYPES]


def _wait_of(error: Exception) -> object:
    """How long it asks to wait, in seconds or as a date; libraries have several names for it."""
    for name in ("retry_after_ms", "retryAfterMs"):
        milliseconds = getattr(error, name, None)
        if isinstance(milliseconds, int | float):
            return milliseconds / 1000
    return getattr(error, "retry_after", None)


def _message_of(error: Exception) -> str:
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - its name is left
        text = ""
    if isinstance(error, _TaskError | _SimulatedFailure):
        return text or name
    return f"{name}: {text}" if text else name


def _code_of(error: Exception) -> str | None:
    """The code that an error carries, or its errno's name, as `ECONNREFUSED`."""
    code = getattr(error, "code", None)
    if isinstance(code, str):
        return code
    if isinstance(error, OSError) and type(error).__name__ == "gaierror":
        return "ENOTFOUND"
    if isinstance(error, TimeoutError):
        return "ETIMEDOUT"
    if isinstance(error, OSError) and error.errno is not None:
        import errno  # noqa: PLC0415 - built in, but rarely needed

        return errno.errorcode.get(error.errno)
    return None


def _send_failure(
    message: str,
    *,
    code: str | None = None,
    error_class: str | None = None,
    types: Sequence[str] = (),
    retry_after: object = None,
    stack: str | None = None,
) -> None:
    error: dict[str, object] = {"message": message[:_LONGEST_TEXT]}
    if code is not None:
        error["code"] = code[:_LONGEST_TEXT]
    if isinstance(error_class, str):
        error["class"] = error_class
    if types:
        error["type"] = [name[:_LONGEST_TEXT] for name in types]
    error |= _asked_wait(retry_after)
    if stack is not None:
        error["stack"] = stack[-_LONGEST_TEXT:]  # its end has the cause
    _send({"failed": True, "error": error})


def _asked_wait(given: object) -> dict[str, object]:
    """A wait as the worker reads it; never shorter than what was given."""
    if isinstance(given, int | float):
        whole = -(-given * 1000 // 1) if 0 <= given < float("inf") else None
        return {} if whole is None else {"retry_after_ms": int(whole)}
    if hasattr(given, "total_seconds"):
        return _asked_wait(given.total_seconds())
    if hasattr(given, "timestamp"):
        import time  # noqa: PLC0415 - few tasks are given a date

        return _asked_wait(max(0.0, given.timestamp() - time.time()))
    return {"retry_after": given[:_LONGEST_TEXT]} if isinstance(given, str) else {}


def _send(message: dict[str, object]) -> None:
    if _ipc is None and _given() is None:
        return
    import json  # noqa: PLC0415 - see params

    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    _write(text.encode("utf-8", "replace") + b"\n")


def _write(line: bytes) -> None:
    """Write to the pipe, if there is one. A closed one is no reason for a task to fail."""
    if (given := _given()) is not None:
        given.send(line)
        return
    if _ipc is None:
        return
    try:
        while line:
            line = line[os.write(_ipc, line) :]
    except OSError:
        return


def _open_ipc() -> int | None:
    """The descriptor of the IPC pipe, if there is one.

    A child of the task inherits the number in its environment, but not always the pipe: a file that
    it opens later may get that number. So this is checked at import.
    """
    try:
        fd = int(os.environ["CRON_IPC_FD"])
        return fd if stat.S_ISFIFO(os.fstat(fd).st_mode) else None
    except (KeyError, ValueError, OSError):
        return None


def _params_text() -> str:
    global _stdin_text  # noqa: PLW0603 - stdin can be read once, params() called often
    if (given := _given()) is not None:
        return given.params
    path = os.environ.get("CRON_PARAMS_FILE")
    if path:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # `open` takes longer than the rest
        try:
            return b"".join(iter(lambda: os.read(file, 1 << 16), b"")).decode()
        finally:
            os.close(file)
    if _stdin_text is None:
        by_hand = sys.stdin is None or sys.stdin.isatty()
        _stdin_text = "" if by_hand else sys.stdin.read()
    return _stdin_text


_ipc = _open_ipc()
_stdin_text: str | None = None
_given: Callable[[], Given | None] = lambda: None  # noqa: E731 - until `ask`
