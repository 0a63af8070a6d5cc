"""Fail a few times, then recover: something to watch a retry with.

Parameters: `failures`, how many attempts fail, 2 unless given. Nothing is kept on disk: the
attempt knows its own number.
"""

from typing import Any

from cronhare import task


def main(params: dict[str, Any]) -> None:
    """Fail while the attempt's number is not above *failures*."""
    failures = int(params.get("failures", 2))
    attempt = task.attempt()
    print(f"attempt {attempt}: asking the warehouse for its stock")
    if attempt <= failures:
        raise task.TransientError(f"the warehouse is busy (failure {attempt} of {failures})")
    print(f"attempt {attempt}: the warehouse answered, {42 * attempt} crates in stock")


if __name__ == "__main__":
    task.run(main)
