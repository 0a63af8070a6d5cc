"""What can be wrong with the servers, the ledger and the settings, and what mends it.

Facts come from adapters as plain values; the judgement is here. Start reading at `finding`.
"""

from .broker import BrokerFacts, judge_broker
from .clock import WORRYING_SKEW
from .database import ASKED_FOR, DatabaseFacts, Exhausted, Need, Requirements, judge_database
from .finding import Finding, Severity
from .guide import BrokerGuide
from .identity import judge_sources
from .lanes import LaneReport, LaneState, judge_lanes, judge_unseen
from .ledger import Activity, LedgerFacts, SchemaFault, judge_activity, judge_ledger, judge_unserved
from .link import Link
from .nodes import Owner
from .overdue import LOOK_FOR_HELD, LastClaim, Late
from .quarantine import Quarantined, judge_quarantine
from .queues import Difference, Fit, Kind, Thing, judge_things
from .servers import BROKER, DATABASE, Cause, InMemory, Unreachable, cure_of, judge_unreachable
from .settings import SettingsFacts, judge_faults, judge_settings
from .waiting import OVERDUE_AFTER, Waiting, judge_waiting
from .work import ScheduleFacts, judge_rows, judge_tasks, judge_timeouts

__all__ = [
    "ASKED_FOR",
    "BROKER",
    "DATABASE",
    "LOOK_FOR_HELD",
    "OVERDUE_AFTER",
    "WORRYING_SKEW",
    "Activity",
    "BrokerFacts",
    "BrokerGuide",
    "Cause",
    "DatabaseFacts",
    "Difference",
    "Exhausted",
    "Finding",
    "Fit",
    "InMemory",
    "Kind",
    "LaneReport",
    "LaneState",
    "LastClaim",
    "Late",
    "LedgerFacts",
    "Link",
    "Need",
    "Owner",
    "Quarantined",
    "Requirements",
    "ScheduleFacts",
    "SchemaFault",
    "SettingsFacts",
    "Severity",
    "Thing",
    "Unreachable",
    "Waiting",
    "cure_of",
    "judge_activity",
    "judge_broker",
    "judge_database",
    "judge_faults",
    "judge_lanes",
    "judge_ledger",
    "judge_quarantine",
    "judge_rows",
    "judge_settings",
    "judge_sources",
    "judge_tasks",
    "judge_things",
    "judge_timeouts",
    "judge_unreachable",
    "judge_unseen",
    "judge_unserved",
    "judge_waiting",
]
