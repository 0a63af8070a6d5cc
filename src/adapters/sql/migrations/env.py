"""Runs migrations on the connection that `cronhare.adapters.sql.migrations.upgrade` hands over.

The transaction is the caller's: SQLite takes back a whole upgrade that failed half-way.
"""

from alembic import context

from cronhare.adapters.sql.migrations.upgrade import VERSION_TABLE


def run() -> None:
    """Run what is asked for."""
    given = context.config.attributes
    context.configure(
        connection=given["connection"],
        version_table=VERSION_TABLE,
        on_version_apply=lambda step, **_: given["applied"].extend(step.up_revision_ids),
    )
    context.run_migrations()


# The name under which Alembic runs this file. Others import it too, to look for doctests, say.
if __name__ == "env_py":
    run()
