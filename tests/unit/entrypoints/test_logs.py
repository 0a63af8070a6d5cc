"""The log lines of S1.14 and S1.16 in docs/compatibility.md, literally."""

import io
import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from cronhare.application.logs import SUCCESS, say
from cronhare.entrypoints.logs import JsonFormatter, TextFormatter, configure, write_in_batches

NOON = 1_765_540_800.0  # 2025-12-12T12:00:00Z


def line(
    level: int,
    text: str,
    *,
    at: float = NOON,
    colours: bool = False,
    node: str = "",
    **extra: object,
) -> str:
    record = logging.LogRecord("cronhare.x", level, "file", 1, text, (), None)
    record.created = at
    record.__dict__.update(extra)
    formatter = TextFormatter(colours=colours)
    if node:
        formatter.node = node
    return formatter.format(record)


TASK = {"type": "report", "id": 25, "scheduler_id": 16}
BRACKETED = "[type=report, id=25, scheduler_id=16"


@pytest.mark.parametrize(
    ("level", "text", "extra", "read"),
    [
        (logging.INFO, "Processing task", {"context": TASK}, f"[INFO] {BRACKETED}] "),
        (
            logging.INFO,
            "Processing task",
            {"context": TASK | {"execution": 99}, "node": "ant-7"},
            f"[INFO] {BRACKETED}, execution=99, node=ant-7] ",
        ),
        (
            logging.INFO,
            "hello",
            {
                "child": "Report:RefreshUserToken:12345",
                "context": {"execution": 99, "attempt": 2, "schedule": "nightly"},
            },
            "[Report:RefreshUserToken:12345] [execution=99, attempt=2, schedule=nightly] ",
        ),
    ],
)
def test_a_line_reads_as_the_original_wrote_it(
    level: int, text: str, extra: dict[str, Any], read: str
) -> None:
    assert line(level, text, **extra) == f"2025-12-12T12:00:00.000Z {read}{text}"


FORGED = "2025-12-12T12:00:00.000Z [SUCCESS] [type=report, id=25, scheduler_id=16] Task completed"

HOSTILE = [
    f"\n{FORGED}",
    f"\x85{FORGED}",
    f"\u2028{FORGED}",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnp.exe",
    "\x00\x7f",
    "\ud800 alone",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_that_a_record_carries_begins_a_line_or_moves_a_cursor(hostile: str) -> None:
    context = {"type": hostile, "failed_at": hostile}
    stack = f"Error: {hostile}\n{FORGED}"

    said = line(logging.ERROR, hostile, context=context, stack=stack, child=hostile)

    first, *below = said.split("\n")
    assert all(each.isprintable() for each in (first, *below)), said
    assert said.splitlines() == [first, *below], "nor does anybody take it for a line's end"
    assert below
    assert all(each.startswith("    ") for each in below)
    said.encode()


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_json_line_carries_it_unharmed_and_unseen(hostile: str) -> None:
    record = logging.LogRecord("cronhare.x", logging.ERROR, "file", 1, hostile, (), None)
    record.__dict__.update(context={"type": hostile}, stack=hostile)

    said = JsonFormatter().format(record)

    assert said.isprintable()
    read = json.loads(said)
    shown = "".join(c if not 0xD800 <= ord(c) <= 0xDFFF else f"\\u{ord(c):04x}" for c in hostile)
    assert (read["message"], read["type"], read["stack"]) == (shown, shown, shown)


def test_what_is_too_long_for_a_log_loses_its_middle() -> None:
    context = {"type": "t" * 10**6}

    said = line(logging.ERROR, "m" * 10**7, context=context, stack="s" * 10**7)

    assert len(said) < 60_000
    assert "characters left out" in said


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
def test_each_level_has_the_original_colour(level: int, name: str, colour: int) -> None:
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
    configure(style="text", level="INFO", stream=stream)
    say(logging.getLogger("cronhare.test"), logging.INFO, "test", "100 % plain")

    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().endswith("[INFO] 100 % plain\n")


def test_a_process_that_lives_long_writes_its_lines_in_order_and_a_warning_at_once() -> None:
    stream = io.StringIO()
    configure(style="text", level="INFO", stream=stream)
    write_in_batches()
    log = logging.getLogger("cronhare.test")

    for number in range(3):
        say(log, logging.INFO, "test", f"line {number}")
    say(log, logging.WARNING, "test", "line 3")

    assert [line[-6:] for line in stream.getvalue().splitlines()] == [f"line {n}" for n in range(4)]


def test_what_waits_is_written_when_the_process_exits() -> None:
    script = (
        "import logging; from cronhare.entrypoints.logs import configure, write_in_batches;"
        "configure(style='text', level='INFO'); write_in_batches();"
        "logging.getLogger('cronhare.x').info('the last line')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stderr.endswith("[INFO] the last line\n")


def test_a_failure_has_its_duration_and_its_stack_below() -> None:
    context = {**TASK, "duration": "3500ms"}
    stack = "Error: Connection timeout\n    at RefreshUserToken.mainFunction (x.js:45:15)"

    said = line(logging.ERROR, "Task execution failed", at=NOON + 3.5, context=context, stack=stack)

    assert said.splitlines() == [
        f"2025-12-12T12:00:03.500Z [ERROR] {BRACKETED}, duration=3500ms] Task execution failed",
        "    Error: Connection timeout",
        "        at RefreshUserToken.mainFunction (x.js:45:15)",
    ]
