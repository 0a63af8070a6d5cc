"""Boundary: what a task writes into the pipe to its worker, and what it does to its parent.

Each input comes from a real child of a real worker, beside innocent work. A line is a message, or
is complained of and ignored; the attempt ends as its process did, or as it said itself.
"""

import json
import random
from base64 import b64encode
from collections.abc import Callable
from functools import partial

from cronhare.adapters.process.output.ipc_messages import LONGEST_MESSAGE
from cronhare.domain.retries.outcome import LONGEST_CODE, LONGEST_STACK
from cronhare.domain.retries.outcome import LONGEST_MESSAGE as LONGEST_SENTENCE
from cronhare.domain.task_report import LARGEST_PROGRESS, LARGEST_RESULT
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
    "infinity": b'{"progress": Infinity}',
    "a million times a million digits": b'{"progress": 1e1000000}',
    "an exponent of 5,000 digits": b'{"progress": 1e' + b"9" * 5_000 + b"}",
    **{f"a progress of {n} digits": b'{"progress": 1%s}' % (b"0" * n) for n in DIGITS},
    "a negative progress of 400 digits": b'{"progress": -1' + b"0" * 400 + b"}",
    "a fraction of 60,000 digits, and too large": b'{"progress": 1e99' + b"0" * 60_000 + b"}",
    **{
        f"a progress of {name}": b'{"progress": %d}' % number
        for name, number in EDGES.items()
        if abs(number) > LARGEST_PROGRESS
    },
    "a progress that is true": b'{"progress": true}',
    "a progress that is text": b'{"progress": "0.5"}',
    "a progress that is nothing": b'{"progress": null}',
    "a progress that is a list": b'{"progress": [0.5]}',
    "5,000 brackets": b"[" * 5_000,
    "5,000 brackets, closed": b"[" * 5_000 + b"]" * 5_000,
    "5,000 braces": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "30,000 brackets within an error": _failed("[" * 30_000 + "]" * 30_000),
    "half a surrogate": _failed(r'"\ud800"'),
    "a surrogate the wrong way round": _failed(r'"\udc00\ud800"'),
    "raw UTF-8 of a surrogate": b'{"failed": true, "error": "\xed\xa0\x80"}',
    "a NUL within text": b'{"failed": true, "error": "a\0b"}',
    "NULs": b"\0" * 1_000,
    "half of a character": b'{"failed": true, "error": "\xe2\x82"}',
    "overlong UTF-8": b'{"failed": true, "error": "\xc0\xaf"}',
    "UTF-16": '{"progress": 0.5}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"progress": 0.5}',
    "nothing": b"",
    "blanks": b" " * 1_000,
    "a carriage return alone": b"\r",
    "an empty object": b"{}",
    "a list": b"[]",
    "a number": b"1",
    "text": b'"progress"',
    "null": b"null",
    "true": b"true",
    "two messages on one line": b'{"progress": 0.5}{"progress": 0.6}',
    "half a message": b'{"progress": 0.',
    "single quotes": b"{'progress': 0.5}",
    "a comment": b'{"progress": 0.5} // half',
    "a trailing comma": b'{"progress": 0.5,}',
    "a key without quotes": b"{progress: 0.5}",
    "hexadecimal": b'{"progress": 0x10}',
    "a leading zero": b'{"progress": 00.5}',
    "a leading plus": b'{"progress": +0.5}',
    "failed, but not": b'{"failed": false}',
    "failed as text": b'{"failed": "true"}',
    "failed as a number": b'{"failed": 1}',
    "finished with nothing": b'{"finish": null}',
    "finished, but not": b'{"finish": false}',
    "other words": b'{"Progress": 0.5, "FAILED": true}',
    "words with a NUL": rb'{"progress\u0000": 0.5}',
    "a result that is no number": b'{"result": NaN}',
    "a result of 5,000 brackets": b'{"result": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "a result of half a surrogate": rb'{"result": "\ud800"}',
    "a result one byte too large": b'{"result": "' + b"x" * (LARGEST_RESULT - 1) + b'"}',
    "a result of 1 MB": b'{"result": "' + b"x" * 1_000_000 + b'"}',
    "a result that is not there": b'{"result": }',
    "a problem that clears the screen": rb'{"result_problem": "\u001b[2J\u0000"}',
    "a line that is one byte too long": b'{"progress": 0.5}' + b" " * (LONGEST_MESSAGE - 16),
    "a frame of the warden's": b'{"ended": 1, "status": 0, "failure": null}',
    "an escape": b"\x1b[2J\x1b]0;owned\x07",
    "a line of ours": b"2026-01-01T00:00:00.000Z [ERROR] [type=worker, id=1] forged",
    "marshal": b"\xfb\x7f\xff\xff\xff" * 100,
    "pickle": b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.",
}

#: What is a message, however odd: nothing is told, and the task succeeds.
TAKEN: dict[str, bytes] = {
    "a progress": b'{"progress": 0.5}',
    "a negative progress": b'{"progress": -0.0}',
    "a very small progress": b'{"progress": 5e-324}',
    "the largest progress": b'{"progress": %d}' % LARGEST_PROGRESS,
    "a progress twice, the last counts": b'{"progress": "x", "progress": 0.5}',
    "a progress with 1,000 other keys": json.dumps(
        {"progress": 1} | {f"k{n}": n for n in range(1_000)}
    ).encode(),
    "a progress with a text": b'{"progress": 0.5, "text": "users"}',
    "a progress with a text that clears the screen": rb'{"progress": 1, "text": "\u001b[2J\u0000"}',
    "a progress with a text of 60,000 letters": b'{"progress": 1, "text": "%s"}' % (b"x" * 60_000),
    "a progress with a tree for a text": b'{"progress": 1, "text": {"a": [1]}}',
    "a result": b'{"result": {"rows": 12}}',
    "a result of nothing": b'{"result": null}',
    "a result of NULs and escapes": rb'{"result": "\u0000\u001b[2J\u202e"}',
    "a result of 900 lists": b'{"result": ' + b"[" * 900 + b"]" * 900 + b"}",
    "a result of 64 KiB": b'{"result": "' + b"x" * (LARGEST_RESULT - 2) + b'"}',
    "two results": b'{"result": 1}\n{"result": 2}',
    "a result after the end": b'{"finish": 1}\n{"result": 2}',
    "finished": b'{"finish": 1}',
    "finished with 2^64": b'{"finish": %d}' % 2**64,
    "finished with a tree": b'{"finish": {"a": [[[[1]]]]}}',
    "a Windows line": b'{"progress": 0.5}\r',
}

#: What says that the work failed: the attempt did, and the ledger has it within bounds.
FAILED: dict[str, bytes] = {
    "no error": b'{"failed": true}',
    "an error of nothing": _failed("null"),
    "an error of a number": _failed("1" + "0" * 400),
    "an error of a list": _failed("[1, [2, [3]]]"),
    "an error of 900 lists": _failed("[" * 900 + "]" * 900),
    "a sentence of 60,000 letters": _failed(json.dumps("x" * 60_000)),
    "a sentence of 10,000 emoji": _failed(
        json.dumps("\N{PILE OF POO}" * 10_000, ensure_ascii=False)
    ),
    "a sentence of NULs": _failed(json.dumps("\0" * 5_000)),
    "a sentence that turns around": _failed(json.dumps("\u202e\u2066evil\u2069 \u2028")),
    "a sentence that clears the screen": _failed(json.dumps("\x1b[2J\x1b[1;1Howned")),
    "a sentence of lines like ours": _failed(json.dumps("x\n2026-01-01T00:00:00.000Z [INFO] y")),
    "a sentence of quotes": _failed(json.dumps("'; DROP TABLE Scheduler; -- %s %(x)s {}")),
    "a code of 60,000 letters": _failed(json.dumps({"message": "m", "code": "E" * 60_000})),
    "a code that is a tree": _failed('{"message": "m", "code": {"a": [1]}}'),
    "a class that nobody knows": _failed('{"message": "m", "class": "fatal"}'),
    "a class that is a list": _failed('{"message": "m", "class": ["permanent"]}'),
    "a stack of 60,000 letters": _failed(json.dumps({"message": "m", "stack": "s\n" * 20_000})),
    "a stack that is a tree": _failed('{"message": "m", "stack": {"a": {"b": 1}}}'),
    "a message that is a number": _failed('{"message": 1e308}'),
    "all keys twice": _failed('{"message": "a", "message": "b", "code": 1, "code": 2}'),
    **{f"a wait of {n} digits": _wait("1" + "0" * n) for n in (400, 4_299)},
    **{f"a wait of {name}": _wait(number) for name, number in EDGES.items()},
    "a wait of -1": _wait(-1),
    "a wait of minus 400 digits": _wait("-1" + "0" * 400),
    "a wait of 1e308": _wait("1e308"),
    "a wait of the smallest": _wait("5e-324"),
    "a wait that is text": _wait('"5"'),
    "a wait that is true": _wait("true"),
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
    "20,000 results": ("""yes '{"result": [1, 2]}' | head -20000 >&3""", "succeeded"),
    "20,000 ends": ("""yes '{"finish": 1}' | head -20000 >&3""", "succeeded"),
    "20,000 failures": ("""yes '{"failed": true}' | head -20000 >&3""", "failed"),
    "a million empty lines, to the output": ("yes '' | head -1000000", "succeeded"),
    "one byte at a time": (_LETTERS, "failed"),
    "a half message by each of two": (
        """(printf '{"progress"' >&3); (printf ': 0.5}\\n' >&3)""",
        "succeeded",
    ),
    "the pipe closed": ("exec 3>&-; exit 0", "succeeded"),
    "all closed": ("exec 0<&- 1>&- 2>&- 3>&-; exit 0", "succeeded"),
    "the pipe read from": ("timeout 1 cat <&3; exit 0", "succeeded"),
    "the pipe kept by a child that stays": ("(setsid sleep 300 >&3 &) ; exit 0", "succeeded"),
    "the warden stopped": ("kill -STOP $PPID; exec sleep 1", "succeeded"),
    "a hang-up for the warden": ("kill -HUP $PPID; exec sleep 1", "succeeded"),
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


def _ignored(script: str, works: Works) -> Answer:
    _end(works, script, "succeeded")
    works.wait_for_line(naming="Ignored an IPC message")
    return Answer.REFUSED


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
