"""What is alike is told once."""

from cronhare.application.doctor.finding import Finding, grouped
from cronhare.ports.inspection import Severity


def warning(what: str, cure: str = "mend it") -> Finding:
    return Finding(Severity.WARNING, "tasks", what, cure)


def test_twelve_equal_warnings_are_one_line_with_their_number_and_examples() -> None:
    many = [warning(f"schedule {number} has no task") for number in range(12)]

    [told] = grouped(many)

    assert told.what == ("12 alike: schedule 0 has no task; schedule 1 has no task; and 10 others")
    assert (told.severity, told.cure) == (Severity.WARNING, "mend it")


def test_few_of_them_and_those_with_another_cure_are_told_one_by_one_in_their_order() -> None:
    findings = [
        warning("a"),
        warning("b", "wait"),
        warning("c"),
        Finding(Severity.OK, "tasks", "d"),
    ]

    assert grouped(findings) == findings
