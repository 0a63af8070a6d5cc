"""Options that were not given are not checked: what checks them takes long to import."""

from typing import Any

from typer._coercion import RuntimeParam, build_runtime_param
from typer.core import TyperCommand


class TypedValue(RuntimeParam):
    """Checks what somebody typed as typer does, with pydantic, and takes a default as it is.

    pydantic is half of what typer imports, and most calls give a name or nothing at all.
    """

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - typer's own
        if isinstance(self.annotation, type) and isinstance(value, self.annotation):
            return value
        checker = build_runtime_param(param.type_descriptor)
        return checker.coerce(value, param=param, ctx=ctx)


class ChecksTyped:
    """A command or a group that checks what was typed alone."""

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
    """A command that checks what was typed alone."""
