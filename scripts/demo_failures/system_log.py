"""The log of `cronhare up` in its form for machines: what happened, by its `action`."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any


class Line(dict[str, Any]):
    """One line; what it says of an execution, a queue or a task stands beside its message."""

    @property
    def at(self) -> datetime:
        """When it was written."""
        return datetime.fromisoformat(self["time"])

    @property
    def message(self) -> str:
        """What it says to people."""
        return str(self["message"])


class SystemLog:
    """Reads a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._lines: list[Line] = []

    def lines(self, action: str | None = None, **fields: object) -> list[Line]:
        """Give the lines with an action and these values, oldest first."""
        self._go_on()
        wanted: Mapping[str, object] = fields if action is None else {**fields, "action": action}
        return [line for line in self._lines if wanted.items() <= line.items()]

    def end(self, number: int) -> list[str]:
        """Give the last of its lines for people."""
        return [
            f"{line['time']} [{line['level']}] {line.message}" for line in self.lines()[-number:]
        ]

    def _go_on(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole, _, _ = new.rpartition(b"\n")
        if not whole:
            return
        self._read += len(whole) + 1
        for text in whole.splitlines():
            try:
                self._lines.append(Line(json.loads(text)))
            except ValueError:
                continue  # a warning of a library, say
