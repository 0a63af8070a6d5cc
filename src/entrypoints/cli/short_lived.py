"""The commands that do one thing and end."""

import typer

from .commands import (
    administration,
    doctor,
    executions,
    failed,
    files,
    imports,
    nodes,
    settings,
    times,
)


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    files.add_to(app)
    times.add_to(app)
    administration.add_to(app)
    doctor.add_to(app)
    settings.add_to(app)
    app.add_typer(executions.app, name="executions")
    app.add_typer(nodes.app, name="nodes")
    app.add_typer(failed.app, name="failed")
    app.add_typer(imports.app, name="import")
    app.add_typer(administration.db, name="db")
