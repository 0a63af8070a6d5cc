"""Remind somebody of something, once: print the reminder and keep it in a file.

Parameters: `text`; `to`, a name; `folder`, relative to the examples folder. The file is named
after the execution: a second attempt replaces the first one's instead of reminding twice.
"""

import os
from pathlib import Path
from typing import Any

from cronhare import task

EXAMPLES = Path(__file__).resolve().parent.parent


def main(params: dict[str, Any]) -> None:
    """Print the reminder and keep it."""
    text = str(params.get("text", "")).strip()
    if not text:
        raise task.PermanentError('there is nothing to remind of: give {"text": "…"}')
    reminder = f"{params.get('to', 'Everybody')}: {text}"
    folder = EXAMPLES / params.get("folder", "var/reminders")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{task.execution_key() or 'by-hand'}.txt"
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(f"{reminder}\n", encoding="utf-8")
    part.replace(path)
    print(f"REMINDER {reminder}")


if __name__ == "__main__":
    task.run(main)
