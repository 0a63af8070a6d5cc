"""Boundary: what a task writes into the pipe to its worker, and what it does to its parent.

Each input comes from a real child of a real worker, beside innocent work. A line is a message, or
is complained of and ignored; the attempt ends as its process did, or as it said itself.
"""

import json
import random
from base64 import b64encode
from collections.abc import Callable
from functools import partial

from cronhare.adapters.process.messages import LONGEST_MESSAGE
from cronhare.domain.retries.outcome import LONGEST_CODE, LONGEST_STACK
from cronhare.domain.retries.outcome import LONGEST_MESSAGE as LONGEST_SENTENCE
from cronhare.ports.runner import LARGEST_PROGRESS, LARGEST_RESULT
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled
from tests.fuzz.works import Works, works

#: More than all that is kept of a failure can be as JSON, whatever it was made of.
LARGEST_ERROR = 6 * (LONGEST_SENTENCE + LONGEST_CODE + LONGEST_STACK) + 1024

DIGITS = (400, 4_299, 4_300, 4_301, 60_000)
EDGES = {
    "2^31": 2**31,
    "2^32": 2**32,
    "2^53 + 1": 2**53 + 1,
    "2^63 - 1": 2**63 - 1,
    "2^63": 2**63,
    "2^64": 2**64,
    "-2^63 - 1": -(2**63) - 1,
    "2^1024": 2**1024,
}


def _failed(error: str) -> bytes:
    return b'{"failed": true, "error": %s}' % error.encode()


def _wait(milliseconds: object) -> bytes:
    return _failed(f'{{"message": "slow down", "retry_after_ms": {milliseconds}}}')


#: What is no message: it is told so, and the task succeeds all the same.
IGNORED: dict[str, bytes] = {
    "NaN": b'{"progress": NaN}',
    "a million times a million digits": b'{"progress": 1e1000000}',
    "an exponent of 5,000 digits": b'{"progress": 1e' + b"9" * 5_000 + b"}",
    **{f"a progress of {n} digits": b'{"progress": 1%s}' % (b"0" * n) for n in DIGITS},
    **{
        f"a progress of {name}": b'{"progress": %d}' % number
        for name, number in EDGES.items()
        if abs(number) > LARGEST_PROGRESS
    },
    "a progress that is a list": b'{"progress": [0.5]}',
    "5,000 brackets": b"[" * 5_000,
    "5,000 braces": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "30,000 brackets within an error": _failed("[" * 30_000 + "]" * 30_000),
    "half a surrogate": _failed(r'"\ud800"'),
    "a NUL within text": b'{"failed": true, "error": "a\0b"}',
    "half of a character": b'{"failed": true, "error": "\xe2\x82"}',
    "UTF-16": '{"progress": 0.5}'.encode("utf-16"),
    "nothing": b"",
    "an empty object": b"{}",
    "a list": b"[]",
    "null": b"null",
    "two messages on one line": b'{"progress": 0.5}{"progress": 0.6}',
    "failed as text": b'{"failed": "true"}',
    "a line that is one byte too long": b'{"progress": 0.5}' + b" " * (LONGEST_MESSAGE - 16),
    "a frame of the warden's": b'{"ended": 1, "status": 0, "failure": null}',
    "a snooze of 2^64 seconds": b'{"snooze": %d}' % 2**64,
    "a snooze that is a text": b'{"snooze": "30s"}',
    "a line of ours": b"2026-01-01T00:00:00.000Z [ERROR] [type=worker, id=1] forged",
}

#: A result that is not kept: it is told so, and the task succeeds all the same.
UNKEPT: dict[str, bytes] = {
    "a result of 5,000 brackets": b'{"result": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "a result one byte too large": b'{"result": "' + b"x" * (LARGEST_RESULT - 1) + b'"}',
    "a problem that clears the screen": rb'{"result_problem": "\u001b[2J\u0000"}',
}

#: What is a message, however odd: nothing is told, and the task succeeds.
TAKEN: dict[str, bytes] = {
    "a very small progress": b'{"progress": 5e-324}',
    "the largest progress": b'{"progress": %d}' % LARGEST_PROGRESS,
    "a progress with a text that clears the screen": rb'{"progress": 1, "text": "\u001b[2J\u0000"}',
    "a result of NULs and escapes": rb'{"result": "\u0000\u001b[2J\u202e"}',
    "a result of 900 lists": b'{"result": ' + b"[" * 900 + b"]" * 900 + b"}",
    "a result of 64 KiB": b'{"result": "' + b"x" * (LARGEST_RESULT - 2) + b'"}',
    "finished with 2^64": b'{"finish": %d}' % 2**64,
    "a Windows line": b'{"progress": 0.5}\r',
}

#: What says that the work failed: the attempt did, and the ledger has it within bounds.
FAILED: dict[str, bytes] = {
    "an error of 900 lists": _failed("[" * 900 + "]" * 900),
    "a sentence of 60,000 letters": _failed(json.dumps("x" * 60_000)),
    "a sentence of 10,000 emoji": _failed(
        json.dumps("\N{PILE OF POO}" * 10_000, ensure_ascii=False)
    ),
    "a sentence of NULs": _failed(json.dumps("\0" * 5_000)),
    "a sentence that clears the screen": _failed(json.dumps("\x1b[2J\x1b[1;1Howned")),
    "a sentence of quotes": _failed(json.dumps("'; DROP TABLE Scheduler; -- %s %(x)s {}")),
    "a code that is a tree": _failed('{"message": "m", "code": {"a": [1]}}'),
    "a stack of 60,000 letters": _failed(json.dumps({"message": "m", "stack": "s\n" * 20_000})),
    **{f"a wait of {n} digits": _wait("1" + "0" * n) for n in (400, 4_299)},
    **{f"a wait of {name}": _wait(number) for name, number in EDGES.items()},
    "a wait of -1": _wait(-1),
    "a wait of 1e308": _wait("1e308"),
    "a wait that is a list": _wait("[1]"),
    "failed, then finished": b'{"failed": true}\n{"finish": 1}',
    "failed without a newline": b'{"failed": true}',
}

#: Each a write of its own.
_LETTERS = (
    """for c in '{' '"' 'f' 'a' 'i' 'l' 'e' 'd' '"' ':' 't' 'r' 'u' 'e' '}'; do """
    """printf %s "$c" >&3; sleep 0.01; done"""
)

#: What takes more than a line: a script, and the state in which it ends. What writes faster than it
#: is read may be ended by its timeout.
SCRIPTS: dict[str, tuple[str, str]] = {
    "1 GB without a newline": ("head -c 1000000000 /dev/zero >&3", ""),
    "1 GB without a newline, to the output": ("head -c 1000000000 /dev/zero", ""),
    "empty lines without end": ("exec yes '' >&3", "failed"),
    "200,000 empty lines": ("yes '' | head -200000 >&3", "succeeded"),
    "50,000 progresses": ("""yes '{"progress": 1}' | head -50000 >&3""", "succeeded"),
    "20,000 ends": ("""yes '{"finish": 1}' | head -20000 >&3""", "succeeded"),
    "one byte at a time": (_LETTERS, "failed"),
    "a half message by each of two": (
        """(printf '{"progress"' >&3); (printf ': 0.5}\\n' >&3)""",
        "succeeded",
    ),
    "the pipe closed": ("exec 3>&-; exit 0", "succeeded"),
    "all closed": ("exec 0<&- 1>&- 2>&- 3>&-; exit 0", "succeeded"),
    "the pipe kept by a child that stays": ("(setsid sleep 300 >&3 &) ; exit 0", "succeeded"),
    "the warden stopped": ("kill -STOP $PPID; exec sleep 1", "succeeded"),
    "itself stopped": ("kill -STOP $$", "failed"),
    "200 children": ("i=0; while [ $i -lt 200 ]; do sleep 300 & i=$((i+1)); done", "succeeded"),
    "an exit code of 255": ("echo last words >&2; exit 255", "failed"),
    "last words of escapes": (r"printf '\033[2J\033]0;owned\007' >&2; exit 1", "failed"),
    "last words of 1 MB": ("head -c 1000000 /dev/urandom >&2; exit 1", "failed"),
}


#: Longer than the params that a script comes in.
_LONG = """(printf '{"progress": 1'; head -c 100000 /dev/zero | tr '\\0' 0; echo '}') >&3"""


def _write(line: bytes, *, ended: bool = True) -> str:
    """A script that writes a line into the pipe."""
    text = b64encode(line + b"\n" * ended).decode()
    return f"echo {text} | base64 -d >&3"


def _end(works: Works, script: str, *states: str) -> None:
    """Run a script with innocent work beside it, and see both to their end."""
    condition = works.run_script(script)
    innocent = works.publish_innocent()
    works.wait_for_state(innocent, "succeeded")
    works.wait_for_state(condition, *states)
    [(size,)] = works.plant.query(
        f"SELECT COALESCE(LENGTH(last_error), 0) FROM SchedulerExecution WHERE {condition}"
    )
    if size > LARGEST_ERROR:
        raise Mishandled(f"the ledger keeps {size} bytes of an error")


def _told(naming: str, script: str, works: Works) -> Answer:
    _end(works, script, "succeeded")
    works.wait_for_line(naming=naming)
    return Answer.REFUSED


_ignored = partial(_told, "Ignored an IPC message")
_unkept = partial(_told, "The result is not kept")


def _taken(script: str, works: Works) -> Answer:
    _end(works, script, "succeeded")
    if any("Ignored an IPC message" in line["message"] for line in works.lines()):
        raise Mishandled("a message was ignored")
    return Answer.HANDLED


def _ends(script: str, state: str, works: Works) -> Answer:
    """In that state; in either if none is given."""
    _end(works, script, *([state] if state else ["succeeded", "failed"]))
    return Answer.HANDLED


def _by_chance(rng: random.Random) -> Entry[Works]:
    """A message with a few bytes changed, taken out or repeated."""
    line = bytearray(rng.choice([*TAKEN.values(), *FAILED.values()])[:20_000])
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(line))
        line[at : at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
    number = rng.getrandbits(32)
    return Entry(f"by chance {number:08x}", partial(_ends, _write(bytes(line)), ""))


def _entries(
    kind: str, inputs: dict[str, bytes], judge: Callable[[str, Works], Answer], short: set[str]
) -> list[Entry[Works]]:
    return [
        Entry(f"{kind}: {name}", partial(judge, _write(line)), short=name in short)
        for name, line in inputs.items()
    ]


BOUNDARY = Boundary(
    name="pipes",
    at=works,
    entries=[
        *_entries("ignored", IGNORED, _ignored, {"a progress of 400 digits", "5,000 brackets"}),
        *_entries("unkept", UNKEPT, _unkept, set()),
        Entry("ignored: a progress of 100,000 digits", partial(_ignored, _LONG)),
        *_entries("taken", TAKEN, _taken, set()),
        *_entries(
            "failed",
            FAILED,
            lambda script, works: _ends(script, "failed", works),
            {"a wait of 400 digits"},
        ),
        *(
            Entry(
                f"script: {name}",
                partial(_ends, script, state),
                short=name in {"20,000 ends", "the warden stopped"},
            )
            for name, (script, state) in SCRIPTS.items()
        ),
    ],
    by_chance=_by_chance,
)
