"""Probing the delay lanes once, beside the work."""

import logging

from cronhare.domain.diagnosis.finding import Severity
from cronhare.domain.diagnosis.lanes import judge_lanes
from cronhare.domain.diagnosis.servers import InMemory, Unreachable
from cronhare.ports.records import BrokerInspectionPort

from ..logs import say

log = logging.getLogger(__name__)


def probe_lanes(broker: BrokerInspectionPort) -> None:
    """Send a probe through each lane, and log those that are broken: retries would come late.

    A broker that is away, or lets us send no probe, is not logged here.
    """
    reports = broker.probe()
    if isinstance(reports, InMemory | Unreachable):
        return
    for finding in judge_lanes(reports):
        if finding.severity is Severity.ERROR:
            text = f"{finding.what}. What mends it, tells `cronhare doctor --probe`"
            say(log, logging.ERROR, "lanes.broken", text)
        else:
            say(log, logging.DEBUG, "lanes", finding.what)
