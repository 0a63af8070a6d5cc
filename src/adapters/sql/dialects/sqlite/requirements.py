"""What SQLite must be for a ledger, as `cronhare doctor` judges it."""

from typing import Final

from cronhare.domain.diagnosis.database import ASKED_FOR, Need, Requirements
from cronhare.domain.diagnosis.finding import Severity

_NEEDS: Final = (
    Need(
        setting="journal_mode",
        holds=lambda said: said == "wal",
        without="readers and the writer wait for each other",
        cure="keep the file on a local disk: WAL needs shared memory, which network disks lack",
        severity=Severity.WARNING,
    ),
    Need(
        setting="synchronous",
        holds=lambda said: said in {"2", "3"},
        without="after a power loss the last claims may be gone, and their instants run twice",
        cure=ASKED_FOR,
    ),
    Need(
        setting="foreign_keys",
        holds=lambda said: said == "1",
        without="deleted rows would leave others behind",
        cure=ASKED_FOR,
    ),
)

REQUIREMENTS: Final = Requirements(
    oldest=(3, 24), lack="knows no INSERT … ON CONFLICT", needs=_NEEDS
)
