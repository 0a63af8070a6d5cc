"""What schedulers do with a busy minute, on a real ledger and a real broker."""

from figures import Figure, median_of, seconds_of
from production import Production
from samples import BUSY, QUIET

MANY = 100_000
FEW = 10_000
RUNS = 5


def due(servers: Production) -> list[Figure]:
    """Dispatch what is due in one minute: claimed, in the queue, and marked so."""
    few = median_of(RUNS, lambda: _dispatch_seconds(servers, MANY, FEW))
    return [
        Figure(
            what="dispatch 10,000 due, of 100,000", ours=few, unit="s", goal=0.8,
            note=f"median of {RUNS}; {FEW / few:,.0f}/s",
        ),
    ]  # fmt: skip


def _dispatch_seconds(servers: Production, count: int, busy: int) -> float:
    """Let a scheduler that is at work already meet a busy minute."""
    url = servers.ledger(count, busy=busy)
    with servers.broker.vhost() as vhost, servers.opened(url, vhost) as container:
        dispatcher = container.dispatcher()
        dispatcher.tick(QUIET)
        container.broker().declare(container.queues())
        ticks = []
        seconds = seconds_of(lambda: ticks.append(dispatcher.tick(BUSY)))
        assert [tick.published for tick in ticks] == [busy], ticks
    return seconds
