"""The bounds of a jobs file, for its readers and writers; and which version of one was read."""

import attrs

#: Bytes; no jobs file that people write is larger. Another file may be, or have no end.
LARGEST_FILE = 8 * 2**20

#: Characters of the name under which the ledger knows a file.
LONGEST_SOURCE = 255

#: How deep tables and lists may be nested, in params above all.
DEEPEST = 64

#: Keys and values of all tables and lists; 10,000 schedules with their tasks have 200,000.
MOST_PIECES = 250_000

#: A number, a date or a key without quotes: each character costs the reader a hundred bytes.
LONGEST_WORD = 65_536

#: Whole numbers in TOML have 64 bits.
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1


@attrs.frozen
class FileVersion:
    """A jobs file, by the *source* that the ledger knows, as a worker or a command has read it.

    Of two with one *digest* a worker has the same tasks and tells the same targets.
    """

    source: str
    digest: str
