"""`cronhare metrics`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import file_refusal
from ..wiring import open_ledger


def metrics(
    *,
    textfile: Annotated[
        Path | None,
        typer.Option(help="Write them into this file, for node_exporter's textfile collector."),
    ] = None,
) -> None:
    """Print metrics, for Prometheus, counted in the ledger now.

    `cronhare web` and each `up` answer the same at /metrics, and what their process counted.
    """
    from cronhare.adapters.prometheus.measuring import exposition, write_textfile  # noqa: PLC0415 - its library brings an HTTP server

    measured = open_ledger().metrics().measure()
    if textfile is None:
        sys.stdout.write(exposition(measured))
        return
    try:
        write_textfile(measured, textfile)
    except OSError as error:
        raise file_refusal(error, textfile, "The metrics were not written.") from error
