"""The seeds' log lines, literally."""

import io
import json
import logging

import pytest

from cronhare.application.logs import SUCCESS, say
from cronhare.entrypoints.logs import JsonFormatter, SeedsFormatter, configure

NOON = 1_765_540_800.0  # 2025-12-12T12:00:00Z


def line(level: int, text: str, *, at: float = NOON, colours: bool = False, **extra: object) -> str:
    record = logging.LogRecord("cronhare.x", level, "file", 1, text, (), None)
    record.created = at
    record.__dict__.update(extra)
    return SeedsFormatter(colours=colours).format(record)


def test_a_line_reads_as_the_seeds_wrote_it() -> None:
    context = {"type": "report", "id": 25, "scheduler_id": 16}

    said = line(logging.INFO, "Processing task", context=context)

    assert said == (
        "2025-12-12T12:00:00.000Z [INFO] [type=report, id=25, scheduler_id=16] Processing task"
    )


def test_a_failure_has_its_duration_and_its_stack_below() -> None:
    context = {"type": "report", "id": 25, "scheduler_id": 16, "duration": "3500ms"}
    stack = "Error: Connection timeout\n    at RefreshUserToken.mainFunction (x.js:45:15)"

    said = line(logging.ERROR, "Task execution failed", at=NOON + 3.5, context=context, stack=stack)

    bracketed = "[type=report, id=25, scheduler_id=16, duration=3500ms]"
    assert said.splitlines() == [
        f"2025-12-12T12:00:03.500Z [ERROR] {bracketed} Task execution failed",
        "2025-12-12T12:00:03.500Z [ERROR] Stack trace:",
        "Error: Connection timeout",
        "    at RefreshUserToken.mainFunction (x.js:45:15)",
    ]


def test_a_retry_is_told_in_the_seeds_words() -> None:
    context = {"type": "report", "id": 25, "scheduler_id": 16}

    said = line(
        logging.WARNING, "Scheduling retry 1/3 in 30000ms", at=NOON + 3.502, context=context
    )

    assert said == (
        "2025-12-12T12:00:03.502Z [WARN] "
        "[type=report, id=25, scheduler_id=16] Scheduling retry 1/3 in 30000ms"
    )


def test_a_line_without_context_has_no_empty_brackets() -> None:
    said = line(
        logging.DEBUG, 'Task parameters: {"controller": "RefreshUserToken"}', at=NOON + 0.001
    )

    assert said == (
        '2025-12-12T12:00:00.001Z [DEBUG] Task parameters: {"controller": "RefreshUserToken"}'
    )


def test_a_childs_line_names_the_child_and_nothing_else() -> None:
    said = line(
        logging.INFO, "Process spawned (instant mode)", child="Report:RefreshUserToken:12345"
    )

    assert said == (
        "2025-12-12T12:00:00.000Z [Report:RefreshUserToken:12345] Process spawned (instant mode)"
    )


@pytest.mark.parametrize(
    ("level", "name", "colour"),
    [
        (logging.INFO, "INFO", 36),
        (logging.WARNING, "WARN", 33),
        (logging.ERROR, "ERROR", 31),
        (logging.DEBUG, "DEBUG", 90),
        (SUCCESS, "SUCCESS", 32),
    ],
)
def test_each_level_has_the_seeds_colour(level: int, name: str, colour: int) -> None:
    said = line(level, "text", colours=True)

    assert said == f"2025-12-12T12:00:00.000Z \x1b[{colour}m[{name}]\x1b[0m text"


def test_json_lines_carry_the_action_and_the_context() -> None:
    record = logging.LogRecord("cronhare.x", SUCCESS, "file", 1, "Done", (), None)
    record.created = NOON
    record.__dict__.update(action="attempt.succeeded", context={"scheduler_id": 16})

    said = json.loads(JsonFormatter().format(record))

    assert said == {
        "time": "2025-12-12T12:00:00.000Z",
        "level": "SUCCESS",
        "logger": "cronhare.x",
        "action": "attempt.succeeded",
        "message": "Done",
        "scheduler_id": 16,
    }


def test_no_colours_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    configure(style="text", level="INFO", stream=stream)
    try:
        say(logging.getLogger("cronhare.test"), logging.INFO, "test", "100 % plain")
    finally:
        root.handlers[:], _ = before
        root.setLevel(before[1])

    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().endswith("[INFO] 100 % plain\n")
