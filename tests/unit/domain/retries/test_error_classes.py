import pytest

from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.retries.policy import ErrorRulesInvalid, classified, read_error_rules

RULES = read_error_rules(
    {
        "transient": ["ECONNRESET", "exit:75", "AUTH_INVALID"],
        "permanent": ["KeyError", "exit:1", "LookupError"],
        "rate-limited": ["TooManyRequests"],
    }
)


def class_of(exit_code: int = 1, **error: object) -> ErrorClass:
    given_error = TaskError(message="no", **error)  # type: ignore[arg-type]
    outcome = Outcome(ending=Ending.FAILED, exit_code=exit_code, error=given_error)
    found = classified(outcome, RULES).error
    assert found is not None
    return found.error_class


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": "ECONNRESET"}, ErrorClass.TRANSIENT),
        ({"types": ("KeyError", "LookupError")}, ErrorClass.PERMANENT),
        ({"types": ("IndexError", "LookupError")}, ErrorClass.PERMANENT),
        ({"types": ("TooManyRequests", "HTTPError")}, ErrorClass.RATE_LIMITED),
        ({"exit_code": 75}, ErrorClass.TRANSIENT),
        ({"exit_code": 3}, ErrorClass.UNKNOWN),
        ({"exit_code": 3, "types": ("OSError",), "code": "EIO"}, ErrorClass.UNKNOWN),
    ],
)
def test_an_error_is_known_by_code_exception_or_exit_status(
    error: dict[str, object], expected: ErrorClass
) -> None:
    assert class_of(**error) is expected  # type: ignore[arg-type]


def test_the_nearest_name_counts() -> None:
    assert class_of(code="ECONNRESET", types=("KeyError",)) is ErrorClass.TRANSIENT


def test_a_rule_for_a_code_outweighs_the_original_classes() -> None:
    assert class_of(code="AUTH_INVALID", error_class=ErrorClass.PERMANENT) is ErrorClass.TRANSIENT


def test_what_the_task_says_outweighs_its_exit_status() -> None:
    assert class_of(error_class=ErrorClass.RATE_LIMITED) is ErrorClass.RATE_LIMITED


def test_a_success_stays_one() -> None:
    done = Outcome(ending=Ending.SUCCEEDED, exit_code=0)

    assert classified(done, RULES) is done


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (3, "a table is expected, with transient, permanent, rate-limited"),
        ({"fatal": []}, "'fatal' is no class of errors; there are transient, permanent"),
        ({"unknown": ["E"]}, "'unknown' is no class of errors"),
        ({"transient": "ECONNRESET"}, "transient: a list of at most 100 texts is expected"),
        ({"transient": [75]}, "75 is not a text of 1 to 64 characters"),
        ({"transient": ["no such"]}, "'no such' is not a code such as"),
        ({"transient": ["exit:0"]}, "'exit:0': an exit status that fails is 1-255"),
        ({"transient": ["E"], "permanent": ["E"]}, "permanent: 'E' is transient already"),
    ],
)
def test_a_table_that_cannot_be_says_what_is_wrong(table: object, fault: str) -> None:
    with pytest.raises(ErrorRulesInvalid) as refused:
        read_error_rules(table)

    (only,) = refused.value.faults
    assert fault in only
