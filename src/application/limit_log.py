"""Logging what changed of the limits of retries: once per change, and not per retry."""

import logging

from cronhare.domain.lifecycle.retry_limits import LimitChange
from cronhare.domain.retries.breaker import BreakerClosed, BreakerOpened, BreakerProbed
from cronhare.domain.retries.budget import BudgetFree, BudgetSpent, OnExhausted, said
from cronhare.domain.texts.moments import say_moment
from cronhare.ports.attempts import Limited, Recorded

from .logs import say

log = logging.getLogger(__name__)


def log_limits(recorded: Recorded) -> None:
    """Log what changed with the end of an attempt."""
    if isinstance(recorded, Limited):
        for change in recorded.changes:
            _log(change)


def _log(change: LimitChange) -> None:
    match change:
        case BudgetSpent(budget=budget, on_exhausted=OnExhausted.DEFER, free_at=free_at):
            text = f"Retries are deferred: {said(budget)} is spent until {say_moment(free_at)}"
            say(log, logging.WARNING, "budget.spent", text, queue=budget.queue)
        case BudgetSpent(budget=budget, free_at=free_at):
            text = f"Retries fail: {said(budget)} is spent until {say_moment(free_at)}"
            say(log, logging.WARNING, "budget.spent", text, queue=budget.queue)
        case BudgetFree(budget=budget, spent_since=since):
            text = f"Retries are granted again: {said(budget)} was spent since {say_moment(since)}"
            say(log, logging.INFO, "budget.free", text, queue=budget.queue)
        case BreakerOpened(breaker=breaker, again=again):
            why = (
                "its probe failed"
                if again
                else f"{breaker.failed:,} of {breaker.failed + breaker.succeeded:,} attempts failed"
            )
            until = say_moment(breaker.probe_at) if breaker.probe_at else "now"
            text = f"Circuit breaker of {breaker.said} is open until {until}: {why}"
            say(log, logging.WARNING, "breaker.opened", text, task=breaker.task)
        case BreakerProbed(breaker=breaker):
            text = (
                f"Circuit breaker of {breaker.said} is half open: a retry of execution "
                f"{breaker.probe} is its probe"
            )
            say(log, logging.INFO, "breaker.half-open", text, task=breaker.task)
        case BreakerClosed(breaker=breaker, opened_at=opened_at, proven=proven):
            why = "its probe succeeded" if proven else "nothing failed for long"
            opened = f"open since {say_moment(opened_at)}"
            text = f"Circuit breaker of {breaker.said}, {opened}, is closed: {why}"
            say(log, logging.INFO, "breaker.closed", text, task=breaker.task)
