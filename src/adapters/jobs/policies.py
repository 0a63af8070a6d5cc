"""From `[defaults]`, `[classes.NAME]` and the like fields of a task to how tasks are run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import attrs

from cronhare.domain.reading import Fault, Reads
from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.retries.policy import (
    POLICIES,
    RetryPolicy,
    RetryPolicyInvalid,
    Strategy,
    read_error_rules,
    read_policy,
)
from cronhare.domain.schedules.retention import read_keep
from cronhare.domain.schedules.task_policy import BUILT_IN_CLASSES, TaskPolicy
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import hint

from .fields import Folder, SomeTime, without_nul
from .subscriptions import EventsTable


def _variables(variables: dict[str, str]) -> dict[str, str]:
    without_nul(*variables, *variables.values())
    for name in variables:
        if not name or "=" in name:
            raise ValueError(f"{name!r} cannot name a variable")
    return variables


def _passed(names: list[str]) -> list[str]:
    without_nul(*names)
    return names


@attrs.frozen(kw_only=True)
class PolicyTable(EventsTable):
    """How tasks are run where nothing nearer says it."""

    retry: Any = None  # it completes one farther away
    timeout: SomeTime | None = None
    errors: Annotated[Any, Reads(read_error_rules)] = attrs.field(factory=dict[str, ErrorClass])
    strategy: str | None = None


@attrs.frozen(kw_only=True)
class ClassTable(PolicyTable):
    """`[classes.NAME]`: how the tasks of a class are run, and how much of their past is kept."""

    keep: Annotated[Any, Reads(read_keep)] = None


@attrs.frozen(kw_only=True)
class DefaultsTable(PolicyTable):
    """`[defaults]`: a policy, and where and with which variables commands run."""

    cwd: Folder | None = None
    env: Annotated[dict[str, str], Reads(_variables)] = attrs.field(factory=dict[str, str])
    pass_env: Annotated[list[str], Reads(_passed)] | None = None

    def under(self, nearer: "DefaultsTable") -> "DefaultsTable":
        """Take from *nearer* what it says; its variables go before ours, one by one.

        A value in `env` would win over a name in `pass_env`, so ours goes where it is passed.
        """
        ours = {name: text for name, text in self.env.items() if name not in nearer.passed}
        return DefaultsTable(
            cwd=nearer.cwd or self.cwd,
            env=ours | nearer.env,
            pass_env=self.pass_env if nearer.pass_env is None else nearer.pass_env,
        )

    @property
    def passed(self) -> tuple[str, ...]:
        """The worker's variables that are passed on."""
        return tuple(self.pass_env or ())


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
    presets: Mapping[str, RetryPolicy] = attrs.field(init=False)

    @presets.default
    def _presets(self) -> Mapping[str, RetryPolicy]:
        of_classes = {name: each.retry for name, each in self.classes.items()}
        return POLICIES | {name: policy for name, policy in of_classes.items() if policy}

    def read(self, table: PolicyTable, farther: TaskPolicy, faults: list[Fault]) -> TaskPolicy:
        """Read what a table says; *farther* has what counts where it says nothing."""
        own = TaskPolicy(
            retry=self.retry(table.retry, farther.retry, faults),
            timeout=table.timeout,
            errors=table.errors,
            strategy=self._strategy(table.strategy, faults),
            keep=table.keep if isinstance(table, ClassTable) else None,
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
