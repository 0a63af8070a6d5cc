"""What an examination finds, each finding with its cure."""

from collections.abc import Sequence
from typing import Self

import attrs

from cronhare.domain.texts.words import counted, listed
from cronhare.ports.inspection import NAMES_TOLD, Severity


@attrs.frozen
class Finding:
    """One thing that was looked at.

    *what* is a sentence without a full stop. *cure* says what to do, and is empty if nothing is.
    It may stand for several that were not told one by one.
    """

    severity: Severity
    subject: str
    what: str
    cure: str = ""
    stands_for: int = attrs.field(default=1, kw_only=True, eq=False)


def named(names: Sequence[str], *, total: int | None = None) -> str:
    """List names, and count those beyond the first few; see `listed`."""
    return listed(names, most=NAMES_TOLD, total=total)


#: So many findings that are alike are told one by one; of more there are examples.
MOST_ALIKE = 2


def grouped(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Tell findings together that have subject, weight and cure in common, where they are many.

    >>> alike = [Finding(Severity.WARNING, "queues", f"{name} is full") for name in "abc"]
    >>> [each.what for each in grouped(alike)]
    ['3 alike: a is full; b is full; and 1 other']
    """
    alike = dict[tuple[Severity, str, str], list[Finding]]()
    for each in findings:
        alike.setdefault(_kind_of(each), []).append(each)
    told = list[Finding]()
    for each in findings:
        found = alike[_kind_of(each)]
        if len(found) <= MOST_ALIKE:
            told.append(each)
        elif each is found[0]:
            told.append(_together(found))
    return told


def _kind_of(finding: Finding) -> tuple[Severity, str, str]:
    return finding.severity, finding.subject, finding.cure


def _together(found: Sequence[Finding]) -> Finding:
    examples = "; ".join(each.what for each in found[:MOST_ALIKE])
    total = sum(each.stands_for for each in found)
    rest = counted(total - MOST_ALIKE, "other")
    what = f"{total:,} alike: {examples}; and {rest}"
    return attrs.evolve(found[0], what=what, stands_for=total)


@attrs.frozen(kw_only=True)
class DiagnosisView:
    """All findings, and how many of them must be mended; *healthy* if none must."""

    healthy: bool
    errors: int
    warnings: int
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> Self:
        """Show findings."""
        severities = [finding.severity for finding in findings]
        errors = severities.count(Severity.ERROR)
        return cls(
            healthy=not errors,
            errors=errors,
            warnings=severities.count(Severity.WARNING),
            findings=tuple(findings),
        )
