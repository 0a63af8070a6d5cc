"""What `cronhare doctor` has found."""

from collections.abc import Sequence
from typing import Self

import attrs

from cronhare.domain.diagnosis.finding import Finding, Severity


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
