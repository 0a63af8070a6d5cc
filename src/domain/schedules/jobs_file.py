"""What a jobs file may be at most: for whoever reads one, and whoever writes one."""

#: No jobs file that people write is larger; something else may be, or have no end at all.
LARGEST_FILE = 8 * 2**20

#: The name under which the ledger remembers a file.
LONGEST_SOURCE = 255

#: A table in a table in a table: params of people are not deeper.
DEEPEST = 64

#: Keys and values of all tables and lists; 10,000 schedules with their tasks have 200,000.
MOST_PIECES = 250_000

#: A number, a date or a key without quotes: each of its letters costs the reader a hundred bytes.
LONGEST_WORD = 65_536

#: Whole numbers in TOML have 64 bits.
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1

#: So many faults are told at once; who has more has another problem.
MOST_FAULTS = 100
