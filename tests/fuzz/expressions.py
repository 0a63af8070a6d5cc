"""Boundary: cron expressions, zones and times, as arguments of `cronhare next`."""

import random
from collections.abc import Callable

from tests.fuzz.commands import Commands, answer, commands, handled, refused
from tests.fuzz.corpus import Answer, Boundary, Entry

#: What must be refused, and what the refusal names.
REFUSED = {
    "a minute too high": "60 * * * *",
    "a step of nothing": "*/0 * * * *",
    "a step of a thousand digits": f"*/{'9' * 1_000} * * * *",
    "a thousand lists": f"{','.join(['1'] * 10_000)},x * * * *",
    "a day that never comes": "0 0 31 2 *",
    "four fields": "* * * *",
    "twenty fields": " ".join("*" * 20),
    "nothing": "",
    "a bell": "\a * * * *",
    "an escape": "\x1b[31m * * * *",
    "Arabic digits": "\u0661 * * * *",
    "half a surrogate": "\udcff * * * *",
    "an unknown word": "@sometimes",
    "a range from high to nothing": "5- * * * *",
    "a negative": "-1 * * * *",
}
TAKEN = {
    "a long list": f"{','.join(map(str, range(60)))} * * * *",
    "a leap day": "0 0 29 2 *",
    "leading zeros": f"{'0' * 50}5 * * * *",
}
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "no such zone": ("* * * * *", "--timezone", "Europe/Atlantis"),
    "a zone outside its folder": ("* * * * *", "--timezone", "../../etc/passwd"),
    "a zone of 100,000 letters": ("* * * * *", "--timezone", "A" * 100_000),
    "a count below one": ("* * * * *", "--count", "-1"),
    "a count of a hundred digits": ("* * * * *", "--count", "9" * 100),
    "no time": ("* * * * *", "--from", "yesterday"),
    "a year of five digits": ("* * * * *", "--from", "10000-01-01T00:00:00Z"),
}


def _any(commands: Commands, *given: str) -> Answer:
    return answer(commands("next", *given))


def _refused(commands: Commands, *given: str) -> Answer:
    return refused(commands("next", *given))


def _taken(commands: Commands, *given: str) -> Answer:
    return handled(commands("next", *given))


def _by_chance(rng: random.Random) -> Entry[Commands]:
    letters = "0123456789*/,-?LW# ab\u00e9\t"
    text = "".join(rng.choices(letters, k=rng.randint(1, 40)))
    return Entry(f"by chance {text!r}", lambda commands: _any(commands, "--", text))


def _entry(
    name: str, judge: Callable[..., Answer], *given: str, short: bool = False
) -> Entry[Commands]:
    return Entry(name, lambda commands: judge(commands, *given), short=short)


BOUNDARY = Boundary(
    name="expressions",
    at=commands,
    entries=[
        *(
            _entry(name, _refused, "--", REFUSED[name], short=n < 3)
            for n, name in enumerate(REFUSED)
        ),
        *(_entry(name, _taken, text, "--count", "2") for name, text in TAKEN.items()),
        *(_entry(name, _refused, *given) for name, given in ARGUMENTS.items()),
    ],
    by_chance=_by_chance,
)
