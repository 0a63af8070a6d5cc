"""How far the clocks of the nodes are off the ledger's, which decides what is due."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from cronhare.domain.nodes import WORRYING_SKEW, NodeReport
from cronhare.ports.inspection import Severity

from .finding import Finding, named

SUBJECT = "clock"


_HARMLESS = "The ledger's decides, so nothing runs at the wrong time, but the times in"
_CURE = "let NTP set the clocks of {} and of the database's (`timedatectl`, `chronyc tracking`)"


def judge_clock(skew: timedelta) -> Finding:
    """Judge the clock of this host, which is ahead of the ledger's by *skew*."""
    off = f"This node is {_said(skew)} off the ledger's clock"
    if abs(skew) <= WORRYING_SKEW:
        return Finding(Severity.OK, SUBJECT, f"{off}, which decides what is due")
    what = f"{off}. {_HARMLESS} this node's log are wrong"
    return Finding(Severity.WARNING, SUBJECT, what, _CURE.format("this host"))


def judge_clocks(nodes: Sequence[NodeReport]) -> Iterator[Finding]:
    """Name the hosts of *nodes* whose clocks are off, each once."""
    off = {node.host: node.clock_offset for node in nodes if abs(node.clock_offset) > WORRYING_SKEW}
    if off:
        hosts = named([f"{host} by {_said(skew)}" for host, skew in sorted(off.items())])
        what = f"Hosts are off the ledger's clock: {hosts}. {_HARMLESS} their nodes' logs are wrong"
        yield Finding(Severity.WARNING, SUBJECT, what, _CURE.format("these hosts"))


def _said(skew: timedelta) -> str:
    return f"{skew.total_seconds():+.3f} s"
