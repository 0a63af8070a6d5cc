"""What a task may be: a request over HTTP, a function of an app, a reminder (S1.7, C14), a command.

The ids are lines of docs/compatibility.md.
"""

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath, PurePosixPath
from typing import Annotated, Any, Final

import attrs
from msgspec import Meta

from ..addresses import WebAddress
from ..reading import Fault, Invalid, Reads
from ..retries.outcome import ErrorClass
from ..texts.printable import echo

#: What a request may do; no other method has an answer that we could judge.
METHODS: Final = ("POST", "GET", "PUT", "PATCH", "DELETE", "HEAD")

#: Methods that are sent without a body: their params go nowhere.
WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "DELETE"})

#: Headers that say which attempt it is, in small letters: ours to say.
OUR_HEADERS: Final = frozenset(
    {
        *("idempotency-key", "cron-execution-id", "cron-execution-key", "cron-attempt"),
        *("cron-due-at", "cron-fence", "cron-topic"),
    }
)

#: Headers that anybody may send in a request over HTTP, beside those that frame it.
MOST_SENT: Final = 64
LONGEST_HEADER: Final = 128
LONGEST_VALUE: Final = 8_192

_TOKEN: Final = re.compile(rf"[!#$%&'*+.^_`|~0-9A-Za-z-]{{1,{LONGEST_HEADER}}}")  # RFC 9110, 5.6.2

#: No line ends, and what Latin-1 can say.
_VALUE: Final = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")

#: They frame a message or say whom it is for: ours alone, or one request could hide another.
_FRAMING: Final = frozenset(
    {
        *("connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)

#: Headers that a task may give its request: each attempt adds ours, and a Content-Type.
MOST_HEADERS: Final = MOST_SENT - len(OUR_HEADERS) - 1

STATUSES: Final = range(100, 600)
SUCCESS: Final = frozenset(range(200, 300))

#: The most statuses and classes of them that a table names.
MOST_STATUSES: Final = 100

_STATUSES: Final = re.compile(r"([1-5])xx")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")

#: Others of 400 and above may pass: an answer says what the server can do now.
_FOR_GOOD: Final = frozenset({400, 401, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431, 501})
_TOO_MANY: Final = 429
_REDIRECTS: Final = range(300, 400)


@attrs.frozen(kw_only=True)
class HttpCall:
    """What is asked of whom, and which statuses of the answer are a success.

    *headers_env* names, by header, the variable of the worker's environment that has its value:
    no secret stands in a file, a log or the ledger.
    """

    address: WebAddress
    method: str = METHODS[0]
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    headers_env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    success: frozenset[int] = SUCCESS


def class_of_status(status: int) -> ErrorClass:
    """Say whether it is worth asking again after such an answer.

    >>> class_of_status(503), class_of_status(404), class_of_status(429)
    (<ErrorClass.TRANSIENT: 'transient'>, <ErrorClass.PERMANENT: 'permanent'>, \
<ErrorClass.RATE_LIMITED: 'rate-limited'>)
    """
    if status == _TOO_MANY:
        return ErrorClass.RATE_LIMITED
    if status in _FOR_GOOD or status in _REDIRECTS:  # where it leads is not followed
        return ErrorClass.PERMANENT
    return ErrorClass.TRANSIENT


def code_of_status(status: int) -> str:
    return f"HTTP{status}"


def _statuses(value: object) -> frozenset[int]:
    """Read `[200, "3xx"]`."""
    if not isinstance(value, list) or not 0 < len(value) <= MOST_STATUSES:
        raise ValueError(f'a list such as ["2xx", 304], {MOST_STATUSES} at most')
    statuses, faults = set[int](), list[Fault]()
    for one in value:
        if isinstance(one, int) and not isinstance(one, bool) and one in STATUSES:
            statuses.add(one)
        elif isinstance(one, str) and (named := _STATUSES.fullmatch(one)):
            first = int(named[1]) * 100
            statuses |= set(range(first, first + 100))
        else:
            allowed = f'{STATUSES[0]}-{STATUSES[-1]}, nor like "2xx"'
            faults.append(Fault("", f"{echo(one)} is no status: neither {allowed}"))
    if faults:
        raise Invalid(faults)
    return frozenset(statuses)


def _fault_of_name(name: str) -> str | None:
    if not _TOKEN.fullmatch(name):
        return f"is no header's name: letters, digits and -, {LONGEST_HEADER} at most"
    if name.lower() in _FRAMING:
        return "frames the message or says whom it is for: cronhare alone sets it"
    return None


def _fault_of_value(value: str) -> str | None:
    """Say why a header may not have that value; None if it may. It may be secret: no quote."""
    if len(value) > LONGEST_VALUE:
        return f"is longer than {LONGEST_VALUE:,} characters"
    if not _VALUE.fullmatch(value):
        return "has a line end, a control character or one beyond Latin-1"
    return None


def _headers(
    fault_of: Callable[[str], str | None],
) -> Callable[[dict[str, str]], Mapping[str, str]]:
    def checked(headers: dict[str, str]) -> Mapping[str, str]:
        faults = list[Fault]()
        for name, value in headers.items():
            if (why := _fault_of_name(name)) is not None:
                faults.append(Fault("", f"{echo(name)} {why}"))
            elif name.lower() in OUR_HEADERS:
                faults.append(Fault("", f"{name} is said by cronhare itself"))
            elif (problem := fault_of(value)) is not None:
                faults.append(Fault(name, problem))
        if faults:
            raise Invalid(faults)
        return headers

    return checked


def _fault_of_variable(value: str) -> str | None:
    return None if _VARIABLE.fullmatch(value) else f"{echo(value)} cannot name a variable"


#: The kinds of what people write of these.
_Texts = Annotated[
    dict[str, str], Meta(max_length=MOST_HEADERS, description="a table of texts, by their names")
]
Headers = Annotated[_Texts, Reads(_headers(_fault_of_value))]
HeadersFromEnv = Annotated[_Texts, Reads(_headers(_fault_of_variable))]
Statuses = Annotated[Any, Reads(_statuses)]


#: `module:attribute`, as `shop.jobs:app`.
PLACE: Final = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*\Z"


class Executor(enum.StrEnum):
    """Where a function runs; each is under a warden."""

    PROCESS = "process"  # an interpreter of its own, which imports the app
    FORK = "fork"  # a fresh child of an interpreter that has the app
    POOL = "pool"  # such children, used again: one run at a time in each
    ASYNC = "async"  # many coroutines in one child


@attrs.frozen(kw_only=True)
class PythonCall:
    """The function that an app has under a task's name.

    *app* says where the app is; its module is looked for in *folder* too. A child that is used
    again is renewed after *per_child* runs; a run that takes more than *memory* bytes is killed
    (coroutines have it for all in a child: then each is run alone). One that takes a *context* is
    told of the last success before it, which the ledger is asked for.
    """

    app: str
    executor: Executor = Executor.FORK
    per_child: int | None = None
    memory: int | None = None
    context: bool = False
    folder: PurePath | None = None


#: Characters of a subject, which is one line, and of a text.
LONGEST_SUBJECT: Final = 200
LONGEST_TEXT: Final = 16 * 1024


@attrs.frozen(kw_only=True)
class Reminder:
    """The names of the targets that are told, and what.

    A run's params may replace the *subject* and the *text*. Without a subject the schedule's name
    is one.
    """

    targets: tuple[str, ...]
    text: str
    subject: str | None = None


def faults_of_message(subject: object, text: object) -> Iterator[Fault]:
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
        yield Fault("subject", f"must be a text of 1 to {LONGEST_SUBJECT} characters")
    elif not subject.isprintable():
        yield Fault("subject", "must be one line that can be printed")
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_TEXT:
        yield Fault("text", f"must be a text of 1 to {LONGEST_TEXT:,} characters")
    elif not all(sign.isprintable() or sign in "\n\t" for sign in text):
        yield Fault("text", "has a character that cannot be printed")


def message_of(reminder: Reminder, params: object, *, schedule: str) -> tuple[str, str]:
    """Give the subject and the text of a run; `Invalid` if it cannot be sent."""
    given = params if isinstance(params, dict) else {}
    usual = (reminder.subject or schedule)[:LONGEST_SUBJECT]
    subject, text = given.get("subject", usual), given.get("text", reminder.text)
    if faults := list(faults_of_message(subject, text)):
        raise Invalid(faults)
    return str(subject), str(text)


#: The environment variables that describe its attempt to a task.
ATTEMPT_VARIABLES: Final = (
    "CRON_EXECUTION_ID",
    "CRON_EXECUTION_KEY",
    "CRON_SCHEDULER_ID",
    "CRON_ATTEMPT",
    "CRON_PARAMS_FILE",
    "CRON_IPC_FD",
    "CRON_DUE_AT",
    "CRON_SCHEDULE",
    "CRON_FENCE",
    "CRON_MISSED",
    "CRON_PREVIOUS_SUCCESS",
    "CRON_USER_ID",
    "CRON_GROUP_ID",
    "CRON_LANGUAGE_ID",
    "CRON_TOPIC",
    "RETRY_COUNT",
    "TRACEPARENT",
)

#: The environment variables that describe an event to a command.
EVENT_VARIABLES: Final = (
    "CRON_EVENT",
    "CRON_EVENT_ID",
    "CRON_EVENT_TARGET",
    "CRON_EVENT_SCHEDULE",
    "CRON_EVENT_JSON",
)


#: Folders that a service cannot see: the units have ProtectHome.
UNSEEN: Final = ("/home", "/root", "/run/user")

_NAMED: Final = re.compile(rf"(?<![\w./-])(?:{'|'.join(UNSEEN)})/")


def is_unseen(path: str) -> bool:
    """Tell whether a path is one that a service cannot see.

    >>> is_unseen("/root"), is_unseen("/home/ann/bin"), is_unseen("/rooted")
    (True, True, False)
    """
    return any(PurePosixPath(path).is_relative_to(folder) for folder in UNSEEN)


def names_unseen(text: str) -> bool:
    """Tell whether a command names something in such a folder.

    >>> names_unseen("cd /home/ann && ./backup"), names_unseen("/srv/home/made")
    (True, False)
    """
    return _NAMED.search(text) is not None
