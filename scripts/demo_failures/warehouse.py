"""An outage from its beginning to its end: breaker, webhook, archive, replays."""

import re
import time
from collections import Counter
from datetime import UTC, datetime

from .receiver import Told
from .system import DidNotHappen, System
from .system_log import Line

#: What jobs.toml says.
ORDERS = 8
#: Of the replays.
CANARY, RATE = 2, 4

#: A probe that came before the warehouse was open fails, and there is another one after a pause.
PROBES = 3

_UNTIL = re.compile(r"is open until (\S+ \S+?)Z")


def breaker_opens(system: System) -> None:
    """Show that an outage opens it."""
    opened = system.logged("breaker.opened")
    _verify_breaker(system, "open")
    system.screen.came_of_it(f"{opened.message}. What fails now goes to the archive at once.")


def webhook_is_told(system: System) -> None:
    """Show what was posted, and that nobody else could have."""
    told = system.until(lambda: _first(system, "orders"), "no webhook came")
    event = told.event
    execution = event["data"]["metadata"]["executionId"]
    forged = Told(told.headers, told.body.replace(b"orders", b"0rders"))
    if not system.receiver.is_genuine(told) or system.receiver.is_genuine(forged):
        raise DidNotHappen("a signature does not tell a forged event from a genuine one")
    printed = system.type("events", "list", "--schedule", "orders", "--limit", "2")
    if "delivered" not in printed:
        raise DidNotHappen("the ledger does not say that it was delivered")
    system.screen.came_of_it(
        f"127.0.0.1:{system.receiver.port} was told {event['type']} of execution {execution}; the "
        "signature is right, and that of a copy with one letter changed is not."
    )


def canary_stops_a_replay(system: System) -> None:
    """Show that a replay into the outage stops after its canary."""
    system.until(lambda: len(_ended(system)) >= ORDERS or None, "not all orders have failed")
    before = len(_starts(system))
    system.type(*_replay())
    stopped = system.logged("replay.stopped")
    printed = system.type("replays", "show", "1")
    begun = {line["execution"] for line in _starts(system)[before:]}
    if len(begun) != CANARY or "stopped" not in printed:
        raise DidNotHappen(f"{len(begun)} executions were begun, and the canary has {CANARY}")
    system.screen.came_of_it(f"{stopped.message}. The other {ORDERS - CANARY} were not touched.")


def breaker_closes(system: System) -> None:
    """Show that one retry, the probe, closes it once the warehouse is open."""
    _wait_for_the_pause(system)
    for _ in range(PROBES):
        number = len(system.log.lines("breaker.half-open"))
        if _last_change(system)["action"] != "breaker.half-open":
            system.type("run", "orders")
            system.logged("breaker.half-open", number=number + 1)
        system.screen.typed("rm warehouse-is-closed")
        system.file("warehouse-is-closed").unlink(missing_ok=True)
        _wait_for_the_probe(system)
        closed = system.log.lines("breaker.closed")
        if closed:
            break
        system.file("warehouse-is-closed").touch()  # this machine was too slow: once more
        _wait_for_the_pause(system)
    else:
        raise DidNotHappen("the breaker did not close")
    _verify_breaker(system, "closed")
    system.screen.came_of_it(f"{closed[-1].message}.")


def batch_is_replayed(system: System) -> None:
    """Show that the same replay now comes to its end, at its rate, and sends each order once."""
    began = time.monotonic()
    system.type(*_replay())
    done = system.logged("replay.done")
    seconds = time.monotonic() - began
    printed = system.type("replays", "show", "2")
    lines = [line.split() for line in system.file("orders-sent").read_text().splitlines()]
    sent = Counter(int(execution) for execution, _ in lines)
    due = {line["execution"] for line in _starts(system)}
    if set(sent) != due or max(sent.values()) > 1 or "done" not in printed:
        raise DidNotHappen(f"{len(due)} orders were due, and these were sent: {dict(sent)}")
    moments = sorted(float(moment) for _, moment in lines[1:])  # the first was the probe's
    span = moments[-1] - moments[0]
    if span < (len(moments) - 1) / RATE * 0.75:
        raise DidNotHappen(f"{len(moments)} began within {span:.1f} s, faster than {RATE} a second")
    system.screen.came_of_it(
        f"{done.message}; {seconds:.0f} s in all. By the warehouse's own record each of "
        f"{len(sent)} orders was sent once, the replayed ones over {span:.1f} s."
    )


def _replay() -> tuple[str, ...]:
    spread = ("--canary", str(CANARY), "--rate", str(RATE))
    return ("failed", "replay", "--schedule", "orders", *spread)


def _verify_breaker(system: System, state: str) -> None:
    printed = system.type("breakers", "list")
    if not re.search(rf"send-order .*\b{state}\b", printed):
        raise DidNotHappen(f"`breakers list` does not say that it is {state}")


def _wait_for_the_pause(system: System) -> None:
    """Wait until the pause of the breaker is over; a probe may be under way already."""

    def over() -> bool | None:
        last = _last_change(system)
        until = _UNTIL.search(last.message)
        if last["action"] != "breaker.opened" or until is None:
            return True
        ends = datetime.fromisoformat(until[1]).replace(tzinfo=UTC)
        return (datetime.now(UTC) - ends).total_seconds() > 1 or None  # it is told in whole seconds

    system.until(over, "the pause of the breaker does not end")


def _wait_for_the_probe(system: System) -> None:
    """Wait until the probe has ended, for better or worse."""
    system.until(
        lambda: _last_change(system)["action"] != "breaker.half-open" or None,
        "the probe has not ended",
    )


def _last_change(system: System) -> Line:
    changes = ("breaker.opened", "breaker.half-open", "breaker.closed")
    return [line for line in system.log.lines() if line.get("action") in changes][-1]


def _starts(system: System) -> list[Line]:
    return system.log.lines("attempt.start", schedule="orders")


def _ended(system: System) -> list[Line]:
    return system.log.lines("execution.failed", schedule="orders")


def _first(system: System, schedule: str) -> Told | None:
    return next((told for told in system.receiver.told if told.schedule == schedule), None)
