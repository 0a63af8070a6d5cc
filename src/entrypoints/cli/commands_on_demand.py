"""A group of commands that imports a command when it is called, and none to list them."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from .typed_values import ChecksTyped, Command

_COMMANDS: Final = f"{__package__}.commands"


class CommandsOnDemand(ChecksTyped, TyperGroup):
    """A subclass names its commands: a help of one line, and where each is, as `module:name`.

    What is found there is a function, a subclass of further commands, or a `typer.Typer` of them.
    """

    places: ClassVar[Mapping[str, tuple[str, str]]]

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - as typer gives them
        """Know the commands by their help alone."""
        super().__init__(**options)
        for name, (_, text) in self.places.items():
            self.add_command(TyperCommand(name, help=text, rich_markup_mode=None))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer's own types
        """Import the command that the arguments name."""
        name, known, rest = super().resolve_command(ctx, args)
        return name, None if name is None else self.load(name), rest if known else args

    @classmethod
    def load(cls, name: str) -> TyperCommand | TyperGroup:
        """Import a command, and make it."""
        place, text = cls.places[name]
        module, _, attribute = place.partition(":")
        found = getattr(import_module(f"{_COMMANDS}.{module}"), attribute)
        if isinstance(found, type) and issubclass(found, CommandsOnDemand):
            return found(name=name, help=text, no_args_is_help=True, rich_markup_mode=None)
        if isinstance(found, typer.Typer):
            group = get_group(found)
            group.help = text
            return group
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        alone.command(name, cls=Command)(found)
        command = get_command(alone)
        assert isinstance(command, TyperCommand)
        return command
