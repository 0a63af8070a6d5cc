"""What people look at: flat values that tables and JSON are made of, here and over HTTP.

Moments are in UTC. Durations are numbers with the unit in their name. Params and errors are JSON
values, and not texts of them.
"""

from .differences import FieldChangeView, ScheduleChangeView
from .executions import AttemptView, ExecutionView, ExplanationView, OutputView
from .failures import FailureView
from .findings import DiagnosisView
from .schedules import LastRun, ScheduleView
from .values import ErrorView, RetryView
from .work import NodeView, QueueView

__all__ = [
    "AttemptView",
    "DiagnosisView",
    "ErrorView",
    "ExecutionView",
    "ExplanationView",
    "FailureView",
    "FieldChangeView",
    "LastRun",
    "NodeView",
    "OutputView",
    "QueueView",
    "RetryView",
    "ScheduleChangeView",
    "ScheduleView",
]
