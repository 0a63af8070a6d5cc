"""What was typed is read here; what is wrong with it, mostly typer says, which imports for long."""

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from typer import BadParameter
from typer._coercion import RuntimeParam, build_runtime_param
from typer.core import TyperCommand

#: What pydantic, by which typer reads, puts in front of a sentence that is whole without it.
_PREFIX: Final = "Value error, "


class _Unsure(Exception):
    """Typer is to say what is wrong."""


class _NoChoice(Exception):
    """What was typed is none of the words to choose from; this says which there are."""


class TypedValue(RuntimeParam):
    """Reads texts, numbers, paths and choices, and leaves all else, and each fault, to typer.

    Typer reads with pydantic, which is half of what a short command would import.
    """

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - typer's own
        try:
            return self._read(value)
        except _Unsure:
            checker = build_runtime_param(param.type_descriptor)
        except _NoChoice as error:
            raise BadParameter(str(error), ctx=ctx, param=param) from error
        try:
            return checker.coerce(value, param=param, ctx=ctx)
        except BadParameter as error:
            error.message = error.message.removeprefix(_PREFIX)
            raise

    def _read(self, value: Any) -> Any:  # noqa: ANN401 - as above
        kind: Any = self.annotation
        if get_origin(kind) is list and isinstance(value, list | tuple):
            [each] = get_args(kind)
            return [self._read_one(item, each) for item in value]
        return self._read_one(value, kind)

    def _read_one(self, value: Any, kind: Any) -> Any:  # noqa: ANN401 - as above
        if not isinstance(kind, type):
            raise _Unsure
        if isinstance(value, kind):
            return value
        if isinstance(value, str) and issubclass(kind, Enum):
            return _chosen(kind, value)
        if isinstance(value, str) and issubclass(kind, Path):
            return _tried(kind, value)
        if isinstance(value, str) and kind is int and value.isascii() and value.isdigit():
            return self._bounded(_tried(int, value))
        raise _Unsure

    def _bounded(self, number: int) -> int:
        least, most = self.parameter_info.min, self.parameter_info.max
        if (least is not None and number < least) or (most is not None and number > most):
            raise _Unsure
        return number


def _chosen(kind: type[Enum], value: str) -> Enum:
    try:
        return kind(value)
    except ValueError as error:
        from cronhare.domain.texts.printable import echo  # noqa: PLC0415 - for a fault alone
        from cronhare.domain.texts.words import meant  # noqa: PLC0415 - as above

        words = [str(each.value) for each in kind]
        there = ", ".join(f"'{word}'" for word in words)
        asked = meant(value.lower(), words)
        text = f"{echo(value)} is not one of {there}"
        raise _NoChoice(f"{text}; {asked}" if asked else text) from error


def _tried(kind: Callable[[str], Any], value: str) -> Any:  # noqa: ANN401 - as above
    try:
        return kind(value)
    except ValueError as error:
        raise _Unsure from error


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
