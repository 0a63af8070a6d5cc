"""What was typed is read here: what is wrong with it, mostly typer says, which imports for long."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin

import typer
from typer import BadParameter
from typer._coercion import RuntimeParam, build_runtime_param
from typer.core import TyperCommand

#: The most rows or instants that can be asked for at once.
MOST_LINES: Final = 10_000

Limit = Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")]

#: Python itself refuses numbers of very many digits.
_DIGITS: Final = 100

#: What pydantic, by which typer reads, puts in front of a sentence that is whole without it.
_PREFIX: Final = "Value error, "


class _Unsure(Exception):
    """Typer is to say what is wrong."""


class TypedValue(RuntimeParam):
    """Reads texts, numbers, paths and choices, and leaves all else, and each fault, to typer.

    Typer reads with pydantic, which is half of what a short command would import.
    """

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - typer's own
        kind: Any = self.annotation
        try:
            if get_origin(kind) is list and isinstance(value, list | tuple):
                return [self._read(item, get_args(kind)[0]) for item in value]
            return self._read(value, kind)
        except _Unsure:
            checker = build_runtime_param(param.type_descriptor)
        try:
            return checker.coerce(value, param=param, ctx=ctx)
        except BadParameter as error:
            error.message = error.message.removeprefix(_PREFIX)
            raise

    def _read(self, value: Any, kind: Any) -> Any:  # noqa: ANN401 - as above
        if isinstance(kind, type) and isinstance(value, kind):
            return value
        if not isinstance(kind, type) or not isinstance(value, str):
            raise _Unsure
        if issubclass(kind, Path):
            return kind(value)
        if issubclass(kind, Enum) and value in {each.value for each in kind}:
            return kind(value)
        least, most = self.parameter_info.min, self.parameter_info.max
        if kind is int and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
            number = int(value)
            if (least is None or number >= least) and (most is None or number <= most):
                return number
        raise _Unsure


class ChecksTyped:
    """A command or a group that reads what was typed as `TypedValue` does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
        """Read the arguments."""
        for param in self.get_params(ctx):  # type: ignore[attr-defined] # what it is mixed with has
            described = param.type_descriptor
            param._runtime_param = TypedValue(  # noqa: SLF001 - typer makes it at the first use
                parameter_info=described.parameter_info, annotation=described.annotation
            )
        rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc] # as above
        return rest


class Command(ChecksTyped, TyperCommand):
    """A command that does so."""
