"""Messages come more than once, to two workers at the same moment."""

from collections.abc import Sequence

from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.application.publish import envelope
from cronhare.domain.execution import Execution
from cronhare.domain.messages import Signer
from cronhare.domain.schedules.planning import plan
from tests.faults.house import PATIENCE, House, stop_politely
from tests.faults.saying import said
from tests.services.finding import wait_until

DUE, COPIES = 40, 8


def copied(house: House) -> None:
    """Send many copies of each message: of first attempts, then of their retries."""
    house.load()
    stop_politely(house.schedulers)
    claims = house.arena.claims
    house.arena.make_due(DUE)
    now = claims.now()
    batch = claims.claim_due(
        now=now, limit=1_000, node="by-hand", planner=lambda one: plan(one, now)
    )
    fenced = said(house.arena.logs).fenced
    send_copies(house, batch.claimed)
    send_copies(house, claims.unfinished(after=0, limit=1_000))
    wait_until(
        lambda: said(house.arena.logs).fenced - fenced >= len(batch.claimed) * (COPIES - 1),
        seconds=PATIENCE,
        every=0.2,
        what=f"fencing all but one of {COPIES} copies",
    )
    house.fill_up()
    house.recover()


def send_copies(house: House, executions: Sequence[Execution]) -> None:
    """Publish many messages for each coming attempt, as if schedulers had lost their minds."""
    broker = PikaBroker(house.arena.settings["CRON_BROKER_URL"])
    now = house.arena.claims.now()
    sent = [envelope(one, now=now, signer=Signer()) for one in executions]
    broker.publish([each for each in sent for _ in range(COPIES)])
    broker.close()


SCENARIOS = {"messages-copied": copied}
