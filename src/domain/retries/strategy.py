"""A backoff strategy of one's own: the name of a Python function, as a jobs file gives it (ADR 7).

No row and no message can name one: it is code, and code comes from the worker's own file.
"""

from pathlib import PurePath
from typing import Final

import attrs

from ..texts.printable import echo

#: The most characters of `module:function`.
LONGEST_STRATEGY: Final = 255


@attrs.frozen
class Strategy:
    """A function that chooses the wait before a retry; its module is looked for in *folder* too."""

    module: str
    function: str
    folder: PurePath

    @classmethod
    def parse(cls, text: str, *, folder: PurePath) -> "Strategy":
        """Read `module:function`.

        >>> Strategy.parse("shop.waits:polite", folder=PurePath("/srv")).function
        'polite'

        Raises:
            ValueError: it is none, and what one is.
        """
        module, colon, function = text.partition(":")
        names = [*module.split("."), function]
        if not colon or len(text) > LONGEST_STRATEGY or not all(map(str.isidentifier, names)):
            raise ValueError(f'{echo(text)} is no function; write "module:function"')
        return cls(module, function, folder)

    def __str__(self) -> str:
        return f"{self.module}:{self.function}"
