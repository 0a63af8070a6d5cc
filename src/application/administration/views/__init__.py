"""Views: flat values from which tables and JSON are made, here and over HTTP.

Moments are in UTC, durations numbers with the unit in their name, params and errors JSON values.
"""

from .differences import FieldChangeView, ScheduleChangeView
from .due import ClockEffectView, DueView
from .executions import (
    AttemptView,
    ExecutionView,
    ExecutionWithAttempts,
    ExecutionWithOutput,
    ExplanationView,
    OutputView,
)
from .failures import (
    DiscardedView,
    FailureView,
    FailureWithDetails,
    QuarantineView,
    ReplayedView,
)
from .findings import DiagnosisView
from .limits import BreakerView, BudgetView
from .replays import ReplayView
from .schedules import ExportView, LastRun, PauseView, ScheduleView, ScheduleWithRuns
from .values import CrashView, ErrorView, RetryView
from .work import NodesView, NodeView, QueueView

__all__ = [
    "AttemptView",
    "BreakerView",
    "BudgetView",
    "ClockEffectView",
    "CrashView",
    "DiagnosisView",
    "DiscardedView",
    "DueView",
    "ErrorView",
    "ExecutionView",
    "ExecutionWithAttempts",
    "ExecutionWithOutput",
    "ExplanationView",
    "ExportView",
    "FailureView",
    "FailureWithDetails",
    "FieldChangeView",
    "LastRun",
    "NodeView",
    "NodesView",
    "OutputView",
    "PauseView",
    "QuarantineView",
    "QueueView",
    "ReplayView",
    "ReplayedView",
    "RetryView",
    "ScheduleChangeView",
    "ScheduleView",
    "ScheduleWithRuns",
]
