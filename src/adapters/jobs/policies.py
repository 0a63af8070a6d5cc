"""From `[defaults]`, `[classes.NAME]` and the like fields of a task to how tasks are run."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs

from cronhare.domain.retries.error_classes import ErrorRules, ErrorRulesInvalid, read_error_rules
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.retries.retry_policy_parser import POLICIES, RetryPolicyInvalid, read_policy
from cronhare.domain.retries.strategy import Strategy
from cronhare.domain.schedules.draft import Fault
from cronhare.domain.schedules.retention import Keep, RetentionInvalid, read_keep
from cronhare.domain.schedules.task_policy import BUILT_IN_CLASSES, TaskPolicy
from cronhare.domain.texts.echo import echo
from cronhare.domain.texts.hint import hint

from .fields import read_duration
from .schema import ClassTable, DefaultsTable, PolicyTable

Presets = Mapping[str, RetryPolicy]


@attrs.frozen(kw_only=True)
class Policies:
    """What a file says of how its tasks are run.

    *environment* completes retry policies that say only a part, *folder* is the file's, and *usual*
    has what `[defaults]` says of a command's surroundings.
    """

    environment: RetryPolicy
    folder: Path
    defaults: TaskPolicy = attrs.field(factory=TaskPolicy)
    usual: DefaultsTable = attrs.field(factory=DefaultsTable)
    classes: Mapping[str, TaskPolicy] = BUILT_IN_CLASSES

    #: The retry policies that have names: those of classes, too.
    presets: Presets = attrs.field(init=False)

    @presets.default
    def _presets(self) -> Presets:
        of_classes = {name: each.retry for name, each in self.classes.items()}
        return POLICIES | {name: policy for name, policy in of_classes.items() if policy}

    def read(self, table: PolicyTable, farther: TaskPolicy, faults: list[Fault]) -> TaskPolicy:
        """Read what a table says; *farther* has what counts where it says nothing."""
        own = TaskPolicy(
            retry=self.retry(table.retry, farther.retry, faults),
            timeout=read_timeout(table.timeout, faults),
            errors=_errors(table.errors, faults),
            strategy=self._strategy(table.strategy, faults),
            keep=_keep(table.keep, faults) if isinstance(table, ClassTable) else None,
        )
        return own.over(farther)

    def retry(
        self, value: object, farther: RetryPolicy | None, faults: list[Fault]
    ) -> RetryPolicy | None:
        """Read a retry policy, completed by the one *farther* away; without a value that counts."""
        if value is None:
            return farther
        try:
            return read_policy(value, default=farther or self.environment, presets=self.presets)
        except RetryPolicyInvalid as error:
            faults += [Fault("retry", f"{error.code}: {fault}") for fault in error.faults]
            return None

    def of_class(self, name: str | None, faults: list[Fault]) -> TaskPolicy:
        """Give the policy of a task's class over the defaults."""
        if name is None:
            return self.defaults
        if name not in self.classes:
            there = hint(name, list(self.classes))
            faults.append(Fault("class", f"there is no class {echo(name)}; {there}"))
            return self.defaults
        return self.classes[name].over(self.defaults)

    def _strategy(self, text: str | None, faults: list[Fault]) -> Strategy | None:
        if text is None:
            return None
        try:
            return Strategy.parse(text, folder=self.folder)
        except ValueError as error:
            faults.append(Fault("strategy", str(error)))
            return None


def read_timeout(text: str | None, faults: list[Fault]) -> timedelta | None:
    """Read how long an attempt may take."""
    timeout = read_duration("timeout", text, faults)
    if timeout is not None and not timeout:
        faults.append(Fault("timeout", "must be longer than nothing"))
        return None
    return timeout


def _keep(table: Any, faults: list[Fault]) -> Keep | None:  # noqa: ANN401 - likewise
    if table is None:
        return None
    try:
        return read_keep(table)
    except RetentionInvalid as error:
        faults += [Fault("keep", fault) for fault in error.faults]
        return None


def _errors(table: Any, faults: list[Fault]) -> ErrorRules:  # noqa: ANN401 - what TOML can hold
    if table is None:
        return {}
    try:
        return read_error_rules(table)
    except ErrorRulesInvalid as error:
        faults += [Fault("errors", fault) for fault in error.faults]
        return {}
