"""The database behind the ledger: its kind, its version, and what our sessions must have."""

from collections.abc import Iterator

from cronhare.ports.inspection import DatabaseFacts, Severity

from .finding import Finding, named
from .link import judge_link
from .servers import DATABASE, version_of

SUBJECT = DATABASE.subject


def judge_database(facts: DatabaseFacts) -> Iterator[Finding]:
    """Judge version and settings. A setting that could not be read is not judged."""
    yield _version(facts)
    if facts.link is not None:
        yield judge_link(facts.link, DATABASE)
    required = facts.requirements
    needs = () if required is None else required.needs
    read = [need for need in needs if need.setting in facts.settings]
    broken = [need for need in read if not need.holds(facts.settings[need.setting])]
    for need in broken:
        said = facts.settings[need.setting] or "empty"
        what = f"{need.setting} is {said}: {need.without}"
        yield Finding(need.severity, SUBJECT, what, need.cure)
    if read and not broken:
        shown = ", ".join(need.setting for need in read)
        yield Finding(Severity.OK, SUBJECT, f"Its settings are as they must be: {shown}")
    if required is not None and facts.plain_tables:
        yield Finding(
            Severity.ERROR,
            SUBJECT,
            f"Tables without transactions: {named(facts.plain_tables)}",
            f"for each of them: `{required.transactions}`",
        )


def _version(facts: DatabaseFacts) -> Finding:
    name, version = f"{facts.product} {facts.version}", version_of(facts.version)
    required = facts.requirements
    if required is None or not version:
        what, cure = (
            f"{name} was never tried",
            "use MariaDB 10.6+, MySQL 8.0+, PostgreSQL 14+ or SQLite",
        )
        return Finding(Severity.WARNING, SUBJECT, what, cure)
    if version < required.oldest:
        wanted = ".".join(map(str, required.oldest))
        what, cure = f"{name} {required.lack}", f"upgrade it to {facts.product} {wanted} or newer"
        return Finding(Severity.ERROR, SUBJECT, what, cure)
    return Finding(Severity.OK, SUBJECT, name)
