"""URLs and the environment: each refusal names its variable, and shows nothing of a password."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Final

from tests.fuzz.commands import Commands, answer, commands, handled, refused
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled

CANARY: Final = "c4nary"
DATABASE: Final = "CRON_DATABASE_URL"
BROKER: Final = "CRON_BROKER_URL"

#: After the scheme. What is wrong is the same for both servers; PLACE is a database or a vhost.
ANYWHERE: Final = (
    f"u:{CANARY}@{CANARY}@h/PLACE",
    f"u:{CANARY}@h@{CANARY}/PLACE",
    f"u:1?{CANARY}=x@h/PLACE",
    f"u:1#{CANARY}@h/PLACE",
    f"u:1/{CANARY}@h/PLACE",
    f"u:{CANARY}[@h/PLACE?x",
    f"u:{CANARY}%@h/PLACE",
    f"u:{CANARY}%0@h/PLACE",
    f"u:{CANARY}%zz@h/PLACE",
    f"u:{CANARY}%00@h/PLACE",
    f"u:{CANARY}%0a@h/PLACE",
    f"u:{CANARY}%ff@h/PLACE",
    f"u:{CANARY}%ed%a0%80@h/PLACE",
    f"{CANARY}%00:p@h/PLACE",
    f"u:{CANARY}\n@h/PLACE",
    f"u:{CANARY}\x1b[2J@h/PLACE",
    f"u:{CANARY} @h/PLACE",
    f"u:{CANARY}\u2028@h PLACE",
    f"u:{CANARY}@",
    f"u:{CANARY}@/PLACE?{CANARY}",
    f"u:{CANARY}@h:/PLACE",
    f"u:{CANARY}@h:0/PLACE",
    f"u:{CANARY}@h:65536/PLACE",
    f"u:{CANARY}@h:-1/PLACE",
    f"u:{CANARY}@h:+1/PLACE",
    f"u:{CANARY}@h:1_0/PLACE",
    f"u:{CANARY}@h:0x10/PLACE",
    f"u:{CANARY}@h:٣/PLACE",
    f"u:{CANARY}@h:{'9' * 5_000}/PLACE",
    f"u:{CANARY}@h:{CANARY}/PLACE",
    f"u:{CANARY}@h:1:2/PLACE",
    f"u:{CANARY}@[::1/PLACE",
    f"u:{CANARY}@::1]/PLACE",
    f"u:{CANARY}@[{CANARY}]/PLACE",
    f"u:{CANARY}@[::1]x/PLACE",
    f"u:{CANARY}@[::1%25eth0;]/PLACE",
    f"u:{CANARY}@a,,b/PLACE",
    f"u:{CANARY}@,/PLACE",
    f"u:{CANARY}@a,b:x/PLACE",
    f"u:{CANARY}@{','.join(f'h{n}' for n in range(500))}/PLACE",
    f"u:{CANARY}@{'h' * 300}/PLACE",
    f"u:{CANARY}@-h/PLACE",
    f"u:{CANARY}@h!/PLACE",
    f"u:{CANARY}@h\\x/PLACE",
    f"u:{CANARY}@ümlaut/PLACE",
    f"u:{CANARY}@h/PLACE?password={CANARY}",
    f"u:{CANARY}@h/PLACE?user=root&passwd={CANARY}",
    f"u:{CANARY}@h/PLACE?{CANARY}",
    f"u:{CANARY}@h/PLACE?{CANARY}={CANARY}",
    f"u:{CANARY}@h/PLACE?ssl=true",
    f"u:{CANARY}@h/PLACE?port=abc",
    f"u:{CANARY}@h/PLACE#{CANARY}",
    f"u:{CANARY}@h/{'p' * 9_000}",
    f"{CANARY * 2_000}@h/PLACE",
    f"h/{CANARY}%00",
    f"h/{CANARY}%fe",
)

#: Whole URLs of a ledger.
LEDGERS: Final = (
    CANARY,
    "://",
    "//h/x",
    "mysql",
    "mysql:",
    "mysql:/h/x",
    f"mysql://{CANARY}",
    "mysql://h",
    "mysql://h/",
    "mysql://h/a/b",
    f"postgresql://u:{CANARY}@h/x",
    f"mysql+mysqldb://u:{CANARY}@h/x",
    f"mysql+{CANARY}://u:p@h/x",
    f"mysql://u:{CANARY}@h/x?ssl_disabled=false",
    f"mysql://u:{CANARY}@h/x?tls={CANARY}",
    "mysql://h/x?tls=",
    "mysql://h/x?tls",
    "mysql://h/x?tls=off&tls=verified",
    f"mysql://u:{CANARY}@h/x?ssl_ca=/nowhere/ca.pem",
    f"mysql://u:{CANARY}@h/x?ssl_ca=/",
    f"mysql://u:{CANARY}@h/x?ssl_ca=/dev/null",
    f"mysql://u:{CANARY}@h/x?ssl_ca=/dev/zero%00",
    "mysql://h/x?ssl_cert=/nowhere",
    "mysql://h/x?tls=off&ssl_ca=/nowhere",
    "mysql://a,b/x?unix_socket=/nowhere",
    f"sqlite://u:{CANARY}@/x",
    f"sqlite://{CANARY}/x",
    f"sqlite+{CANARY}:///x",
    f"sqlite:///x?password={CANARY}",
    f"sqlite:///x?mode=memory#{CANARY}",
    "sqlite:",
    "sqlite://",
    "sqlite:///",
    "sqlite:///:memory:",
    "sqlite:///file:x",
    "sqlite:///a\nb",
    "sqlite:///a\x1b[31mb",
    "sqlite:////proc/self/nothing/ledger.db",
    "sqlite:////",
    "sqlite:////dev/null",
    "sqlite:////etc/hostname",
    f"sqlite:///{'d/' * 2_000}x",
    f"sqlite:///{'x' * 300}",
)

#: Whole URLs of a broker.
BROKERS: Final = (
    CANARY,
    "memory://x",
    "memory:",
    f"redis://u:{CANARY}@h/",
    f"amqp+{CANARY}://h/",
    f"amqp://u:{CANARY}@h/?heartbeat={CANARY}",
    "amqp://h/?heartbeat=",
    f"amqp://h/?heartbeat={'9' * 5_000}",
    "amqp://h/?heartbeat=-1",
    "amqp://h/?heartbeat=٣",
)

#: Other settings: a name, and texts that cannot be used.
SETTINGS: Final = {
    "CRON_MAX_RETRIES": ("-1", "20", "1e1", "0x1", "nan", "٣", "9" * 5_000, "3 3"),
    "CRON_RETRY_DELAY_MS": ("0", "3600001", "1.5"),
    "CRON_RETRY_DELAY_MULTIPLIER": ("nan", "inf", "0", "101", "1e400", "--1"),
    "CRON_CIRCUIT_BREAKER": ("0.5", "open"),
    "CRON_CIRCUIT_BREAKER_ERROR_RATE": ("0", "1", "50%", "nan"),
    "CRON_CIRCUIT_BREAKER_MIN_ATTEMPTS": ("1", "10001", "1.5"),
    "CRON_CIRCUIT_BREAKER_WINDOW_SECONDS": ("0", "86401"),
    "CRON_CIRCUIT_BREAKER_PAUSE_SECONDS": ("0", "inf"),
    "CRON_RETRY_BUDGET": ("-1", "1000001", "1e2", "of", "٣"),
    "CRON_RETRY_BUDGET_WINDOW_SECONDS": ("0", "86401", "inf", "1m"),
    "CRON_RETRY_BUDGET_ON_EXHAUSTED": ("dead_letter", "DEFER", "\x1b[31m"),
    "CRON_LEASE_SECONDS": ("2", "inf", "-0", "30s"),
    "CRON_QUEUES": (
        *(",", "a,,b", "#", "*", "cron_scheduler_failed", "q" * 400, "a\x07b"),
        *("a:0", "a:101", "a:", ":3", "a:-1", "a:1,a:2", "a:\u0663", f"a:{'9' * 5_000}"),
    ),
    "CRON_LOG_LEVEL": ("debug", "\x1b[31m", "INFO;"),
    "CRON_FAILED_MONITOR": ("maybe", "2"),
    "CRON_CONCURRENCY": ("0", "1001", "all"),
    "CRON_CONFIG": ("/nowhere/cronhare.toml", "/", "/dev/zero", "/etc/passwd", "x" * 5_000),
    "CRON_DATABASE_URL_FILE": ("/nowhere", "/", "/dev/zero", "/dev/null", "/proc/self/mem"),
    "CRON_BROKER_URL_FILE": ("/nowhere", "/dev/full", "/bin/true"),
}

#: What may look odd, and is right.
RIGHT: Final = (
    {"CRON_MAX_RETRIES": " 3 "},
    {"CRON_MAX_RETRIES": ""},
    {"CRON_QUEUES": "a, b ,a"},
    {"CRON_QUEUES": "a:3, b:100,c:d:1"},
    {"CRON_FAILED_MONITOR": "YES"},
    {"CRON_SHUTDOWN_GRACE_SECONDS": "0.5"},
    {"CRON_CONCURENCY": "4"},
    {"CRON_" + "X" * 5_000: "4"},
    {BROKER: "amqps://u%40x:p%2F%3F%23@[::1]:5671,b/v%2Fh"},
)


def _shown_nothing(works: Commands, settings: dict[str, str]) -> Answer:
    said = works("schedules", **settings)
    if CANARY in said.out + said.err:
        raise Mishandled(f"the canary is printed: {said}")
    [name] = settings
    try_refusing = refused(said)
    if (
        name.removesuffix("_FILE") not in said.err
        and name != "CRON_CONFIG"
        and "ledger" not in said.err
    ):
        raise Mishandled(f"{name} is not named: {said.err}")
    return try_refusing


def _right(works: Commands, settings: dict[str, str]) -> Answer:
    return handled(works("schedules", **settings))


def _settings(works: Commands, settings: dict[str, str]) -> Answer:
    """Nothing of it is shown by the command that shows settings, either."""
    said = works("settings", "--json", **settings)
    if CANARY in said.out + said.err:
        raise Mishandled(f"the canary is printed: {said}")
    return answer(said)


def _hostile() -> Iterator[dict[str, str]]:
    for text in ANYWHERE:
        yield {DATABASE: f"mysql://{text.replace('PLACE', 'cron')}"}
        yield {BROKER: f"amqp://{text.replace('PLACE', 'vhost')}"}
    yield from ({DATABASE: url} for url in LEDGERS)
    yield from ({BROKER: url} for url in BROKERS)
    for name, texts in SETTINGS.items():
        yield from ({name: text} for text in texts)


def _entries() -> Iterator[Entry[Commands]]:
    for number, settings in enumerate(_hostile()):
        [(name, text)] = settings.items()
        shown = f"{name}={text[:60]!a}"
        yield Entry(shown, partial(_shown_nothing, settings=settings), short=number % 32 == 0)
    for settings in RIGHT:
        [(name, text)] = settings.items()
        yield Entry(
            f"{name[:30]}={text[:60]!a}, which is right", partial(_right, settings=settings)
        )


def _by_chance(rng: random.Random) -> Entry[Commands]:
    """A password with signs of any kind, unescaped, in any place of a URL."""
    signs = "".join(rng.choices("@:/?#[]%&=,; \\'\"aé\t0", k=rng.randint(1, 12)))
    secret = f"{signs[: len(signs) // 2]}{CANARY}{signs[len(signs) // 2 :]}"
    name, scheme = rng.choice([(DATABASE, "mysql"), (BROKER, "amqp")])
    form = rng.choice(["u:{}@h/x", "{}:p@h/x", "u:p@h/x?{}=1", "u:p@h/x?tls={}", "h/x#{}"])
    settings = {name: f"{scheme}://{form.format(secret)}"}
    return Entry(f"{name}={settings[name]!a}", partial(_settings, settings=settings))


BOUNDARY = Boundary(name="addresses", at=commands, entries=[*_entries()], by_chance=_by_chance)
