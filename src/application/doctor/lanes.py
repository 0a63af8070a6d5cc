"""What a probe through the delay lanes has shown, and what AMQP does not show of a broker."""

from collections.abc import Iterator, Sequence

from cronhare.domain.topology import LANE_UNIT, lane_queue
from cronhare.ports.inspection import NAMES_TOLD, BrokerGuide, LaneReport, LaneState, Severity

from .finding import Finding, named

SUBJECT = "lanes"


def judge_lanes(
    reports: Sequence[LaneReport], guide: BrokerGuide | None = None
) -> Iterator[Finding]:
    """Judge all lanes at once: what is cut behind one of them is cut for all that come before.

    Without a *guide* the cures name no command.
    """
    broken, busy = _in(reports, LaneState.BROKEN), _in(reports, LaneState.BUSY)
    if broken:
        yield Finding(
            Severity.ERROR,
            SUBJECT,
            f"What enters {_names(broken)} does not come out. No retry is lost, but those that "
            "need one of them come late, sent again from the ledger",
            "start a scheduler or worker anew: it declares what is missing, bindings included; "
            "then `cronhare doctor --probe`. If that does not mend it, see where "
            f"{lane_queue(broken[0])} leads{f': {_look(guide)}' if guide else ''}",
        )
    if busy:
        longest = LANE_UNIT * 2 ** busy[-1]
        yield Finding(
            Severity.NOTE,
            SUBJECT,
            f"Messages wait in {_names(busy)}, behind which a probe would have to wait as well",
            f"look whether they come out: within {longest.total_seconds():,.1f} s these have to be "
            f"gone{f' ({guide.count_messages})' if guide else ''}; or probe again then",
        )
    if not broken:
        what = f"A probe came through each of {len(reports) - len(busy)} lanes"
        yield Finding(Severity.OK, SUBJECT, what)


def judge_unseen(guide: BrokerGuide, *, probed: bool) -> Finding:
    """Say what an examination of the broker leaves out."""
    lanes = "" if probed else "; `cronhare doctor --probe` tries those of the lanes with a message"
    return Finding(
        Severity.NOTE,
        "queues",
        "Bindings, policies and the broker's own limits are not to be seen over AMQP",
        f"each start of a scheduler or worker makes missing bindings anew{lanes}. To look: "
        f"{_look(guide)}",
    )


def _look(guide: BrokerGuide) -> str:
    return f"{guide.list_bindings}, {guide.list_policies}"


def _in(reports: Sequence[LaneReport], state: LaneState) -> list[int]:
    return sorted(report.lane for report in reports if report.state is state)


def _names(lanes: Sequence[int]) -> str:
    in_a_row = lanes[-1] - lanes[0] == len(lanes) - 1
    if in_a_row and len(lanes) > NAMES_TOLD:
        return f"{lane_queue(lanes[0])} to .{lanes[-1]:02}"
    return named([lane_queue(lane) for lane in lanes])
