"""Boundary: what a task does with its pipes, its parent and itself, under a real worker."""

import random
from collections.abc import Sequence
from functools import partial

from tests.fuzz.corpus import Answer, Boundary, Entry
from tests.fuzz.works import Works, works

#: What ends well, whatever it says: a message nobody understands changes nothing.
WELL = {
    "a NUL in a message": r"printf '\0\0\0\n' >&3",
    "a message without an end": """printf '{"progress": 0.5' >&3""",
    "a message of blanks": "printf '      \\n\\n\\n' >&3",
    "a message with CRLF": r"""printf '{"progress": 0.5}\r\n' >&3""",
    "no UTF-8": r"printf '{\"progress\": \377}\n' >&3",
    "a byte order mark": r"printf '\357\273\277{\"progress\": 0.1}\n' >&3",
    "progress of nothing": """echo '{"progress": null}' >&3""",
    "progress of NaN": """echo '{"progress": NaN}' >&3""",
    "progress of infinity": """echo '{"progress": 1e999}' >&3""",
    "progress of minus infinity": """echo '{"progress": -1e999}' >&3""",
    "progress of a list": """echo '{"progress": [0.5]}' >&3""",
    "progress backwards": """echo '{"progress": -0.5}' >&3""",
    "progress of 5,000 digits": """printf '{"progress": 0.%05000d}\\n' 1 >&3""",
    "10,000 brackets": "head -c 10000 /dev/zero | tr '\\0' '[' >&3; echo >&3",
    "a message of 1 MB": "head -c 1000000 /dev/zero | tr '\\0' 'x' >&3; echo >&3",
    "a list": "echo '[1, 2, 3]' >&3",
    "a number": "echo 17 >&3",
    "an unknown field": """echo '{"command": ["rm"], "owner": "me"}' >&3""",
    "a pipe closed at once": "exec 3>&-; echo after",
    "no pipes at all": "exec 1>&- 2>&- 3>&-; exit 0",
    "a pipe kept by a daemon": "(sleep 30 <&- 1>&- 2>&- &) ; echo begun",
    "a daemon that goes on writing": "(while echo x; do sleep 0.1; done &) ; echo begun",
    "5,000 messages": """for n in $(seq 5000); do echo '{"progress": 0.5}'; done >&3""",
    "an escape in its output": r"printf '\033[2J\033]0;title\007\n'",
    "a line without an end": "head -c 3000000 /dev/zero",
    "lines ended by CR": r"printf 'one\rtwo\rthree\r'",
    "a thousand empty lines": "yes '' | head -1000",
    "a line like a log line": "echo '2026-01-01T00:00:00.000Z [ERROR] [type=worker, id=1] forged'",
    "a line like JSON": """echo '{"level": "ERROR", "message": "forged"}' >&2""",
    "200 children": "for n in $(seq 200); do sleep 20 & done; echo begun",
    "its params file gone": 'rm -f "$CRON_PARAMS_FILE"',
    "its params file a folder": 'rm -f "$CRON_PARAMS_FILE"; mkdir "$CRON_PARAMS_FILE"',
    "its folder gone": 'd=$(mktemp -d); cd "$d"; rmdir "$d"; echo begun',
    "a signal to itself that it ignores": "trap '' TERM HUP INT; kill $$; kill -HUP $$; kill -INT $$",  # noqa: E501
    "a hangup for the warden": "kill -HUP $PPID; sleep 0.2",
    "USR1 for the warden": "kill -USR1 $PPID; sleep 0.2",
    "USR2 for the warden": "kill -USR2 $PPID; sleep 0.2",
    "ALRM for the warden": "kill -ALRM $PPID; sleep 0.2",
    "an interrupt for the warden": "kill -INT $PPID; sleep 0.2",
    "a fast stop and start of the warden": "kill -STOP $PPID; kill -CONT $PPID; sleep 0.2",
    "CHLD for the warden": "for n in $(seq 200); do kill -CHLD $PPID; done",
}


def _fails(fields: str) -> str:
    """Fail with more fields of an error."""
    error = f'{{"failed": true, "error": {{"message": "x", {fields}}}}}'
    return f"printf '%s\\\\n' '{error}' >&3; exit 1"


#: What fails, and is counted as that.
BADLY = {
    "an error of numbers": """echo '{"error": 5}' >&3; exit 1""",
    "an error of nothing": """echo '{"error": {"message": null, "stack": 7}}' >&3; exit 1""",
    "an error of 60 kB": """printf '{"error": {"message": "%060000d"}}\\n' 0 >&3; exit 1""",
    "an error with an escape": r"""echo '{"error": {"message": "\u001b[2J\u0000\ud800"}}' >&3; exit 1""",  # noqa: E501
    "a wait below nothing": """echo '{"error": {"message": "x", "retry_after_ms": -5}}' >&3; exit 1""",  # noqa: E501
    "a wait of NaN": """echo '{"error": {"message": "x", "retry_after_ms": NaN}}' >&3; exit 1""",
    "a wait of 400 zeros": """printf '{"error": {"message": "x", "retry_after_ms": 1%0400d}}\\n' 0 >&3; exit 1""",  # noqa: E501
    "a wait until the year 9999": _fails('"retry_after": "Fri, 31 Dec 9999 23:59:59 GMT"'),
    "a wait until a day that never was": _fails('"retry_after": "Fri, 99 Feb 2026 25:61:00 GMT"'),
    "a wait of a list": _fails('"retry_after": [[[1]]], "retryAfterMs": {}'),
    "a wait with a NUL": _fails(r'"retry_after": "5\u0000"'),
    "10,000 types": _fails('"type": [' + '"E", ' * 9_999 + '"E"]'),
    "a type of 30 kB": _fails(f'"type": "{"E" * 30_000}"'),
    "a type with an escape": _fails(r'"type": ["\u001b[2J", null, 5]'),
    "status 255": "exit 255",
    "an abort": "kill -ABRT $$",
    "a segmentation fault": "kill -SEGV $$",
    "killed by itself": "kill -KILL $$",
    "the whole group killed": "kill -KILL 0",
    "out of files": "ulimit -n 3; exec 9</dev/null",
    "bytes as its last words": r"printf '\377\376\033[2J' >&2; exit 3",
}


BAD = ("retrying", "failed", "quarantined")


def _runs(works: Works, script: str, states: Sequence[str]) -> Answer:
    works.wait_for_state(works.run_script(script), *states)
    return Answer.HANDLED


def _by_chance(rng: random.Random) -> Entry[Works]:
    """Bytes on all three pipes."""
    numbers = [f"\\{rng.randrange(256):03o}" for _ in range(rng.randint(1, 300))]
    noise = "".join(numbers)
    script = f"for fd in 1 2 3; do printf '{noise}\\n' >&$fd; done"
    return Entry(f"noise {noise[:40]}", lambda works: _runs(works, script, ["succeeded"]))


BOUNDARY = Boundary(
    name="more pipes",
    at=works,
    entries=[
        *(
            Entry(name, partial(_runs, script=script, states=["succeeded"]))
            for name, script in WELL.items()
        ),
        *(
            Entry(
                name,
                partial(_runs, script=script, states=BAD),
            )
            for name, script in BADLY.items()
        ),
    ],
    by_chance=_by_chance,
)
