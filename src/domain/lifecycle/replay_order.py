"""What a person asks of the replay of many failures: which, how fast, and when to stop."""

import math
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

import attrs
import msgspec

from ..retries.retry import ATTEMPTS
from ..schedules.task import TaskRef
from ..texts.printable import echo, printable
from ..texts.words import called
from .archive import Archived
from .failure_filter import FailureFilter

#: Executions a second.
RATES: Final = (0.01, 1_000.0)
DEFAULT_RATE: Final = 10.0
#: By how much of itself a gap between two executions grows at most, by chance.
JITTERS: Final = (0.0, 10.0)
DEFAULT_JITTER: Final = 0.2
#: Executions of one key that have not ended.
AT_ONCE: Final = range(1, 10_000 + 1)
DEFAULT_AT_ONCE: Final = 5
CANARIES: Final = range(1_000 + 1)
DEFAULT_STOP_AT: Final = 0.5
LONGEST_AUTHOR: Final = 255

#: What a key may be, but for a path such as `params.customer.id`.
KEYS: Final = ("schedule", "task", "queue")
_PATH: Final = "params."
LONGEST_PATH: Final = 255
#: A longer key is replaced by its hash.
LONGEST_KEY: Final = 200


class ReplayOrderInvalid(ValueError):
    """An order that is refused. *faults* has a pair of field and reason for each."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{field}: {why}" for field, why in faults))


@attrs.frozen(kw_only=True)
class Pacing:
    """How runs are spread that begin in the background.

    At most *rate* begin in a second; each gap between two is longer by up to *jitter* of itself, by
    chance. Of those that have one `key` in common at most *at_once* are under way. The first
    *canary* are judged before any other begins. It stops once more than *stop_at* of the judged go
    badly; None never stops. Each has *attempts* in all, or as many as its policy says. *author* is
    who asked.

    Raises:
        ReplayOrderInvalid: with all faults at once.
    """

    rate: float = DEFAULT_RATE
    jitter: float = DEFAULT_JITTER
    at_once: int = DEFAULT_AT_ONCE
    canary: int = 0
    stop_at: float | None = DEFAULT_STOP_AT
    attempts: int | None = None
    author: str = ""

    def __attrs_post_init__(self) -> None:
        if faults := [*self.faults()]:
            raise ReplayOrderInvalid(faults)

    @property
    def key(self) -> str | None:
        """What is looked at in each to tell whether they have it in common; None bounds nothing."""
        return None

    @property
    def is_of_one_key(self) -> bool:
        """Whether they all have it in common."""
        return False

    def faults(self) -> Iterator[tuple[str, str]]:
        """Give each field that is wrong, with the reason."""
        yield from _faults_of(self)


@attrs.frozen(kw_only=True)
class ReplayOrder(Pacing):
    """Which failures to run again, and how they are spread.

    *key* is one of `KEYS`, or a path in their params.

    Raises:
        ReplayOrderInvalid: with all faults at once.
    """

    which: FailureFilter
    key: str | None = None

    def faults(self) -> Iterator[tuple[str, str]]:
        if not self.which.unresolved:
            yield "which", "only what is unresolved can be replayed"
        yield from super().faults()
        if self.key is not None and self.key not in KEYS:
            yield from _faults_of_path(self.key)

    def key_of(self, row: Archived) -> str:
        """Give what a failure has in common with others; nothing where no key is asked for.

        All that lack the path have one key in common: they are not to be the ones without a limit.
        """
        if self.key is None:
            return ""
        match self.key:
            case "schedule":
                text = row.schedule_name
            case "task":
                task = TaskRef(row.task_type, row.task_id)
                text = called(task, name=row.task_name, topic=row.topic)
            case "queue":
                text = row.queue
            case path:
                text = _found(row.params, path.removeprefix(_PATH).split("."))
        if len(text) <= LONGEST_KEY and text == printable(text):
            return text
        return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()

    @property
    def reads_params(self) -> bool:
        """Whether the key is in the params."""
        return self.key is not None and self.key.startswith(_PATH)


def _found(params: str, path: list[str]) -> str:
    try:
        value: Any = msgspec.json.decode(params)
    except (msgspec.DecodeError, RecursionError):
        return ""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _faults_of(order: Pacing) -> Iterator[tuple[str, str]]:
    for field, value, (least, most) in (
        ("rate", order.rate, RATES),
        ("jitter", order.jitter, JITTERS),
        ("stop_at", order.stop_at, (0.0, 1.0)),
    ):
        if value is not None and not (math.isfinite(value) and least <= value <= most):
            yield field, f"{value:g} is not {least:g}-{most:,g}"
    for field, count, allowed in (
        ("at_once", order.at_once, AT_ONCE),
        ("canary", order.canary, CANARIES),
        ("attempts", order.attempts, ATTEMPTS),
    ):
        if count is not None and count not in allowed:
            yield field, f"{count} is not {allowed[0]}-{allowed[-1]:,}"
    if len(order.author) > LONGEST_AUTHOR or order.author != printable(order.author):
        yield "author", f"is to be a line of at most {LONGEST_AUTHOR} letters"


def _faults_of_path(key: str) -> Iterator[tuple[str, str]]:
    if not key.startswith(_PATH) or "" in key.split(".") or key != printable(key):
        yield "key", f"{echo(key)} is neither {', '.join(KEYS)} nor like params.customer.id"
    elif len(key) > LONGEST_PATH:
        yield "key", f"it has {len(key):,} characters, at most {LONGEST_PATH} are allowed"
