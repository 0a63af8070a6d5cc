"""What every part of the ledger has in common."""


class LedgerUnavailable(Exception):
    """The ledger could not be asked: it is locked, full, away, or of another version.

    Whether a change that was under way took place is unknown. Every change of the ports can be
    repeated: it then happens once, or is answered as already done.
    """


class LedgerOutdated(LedgerUnavailable):
    """The schema is missing or of another version: `cronhare db upgrade` mends it."""


class LedgerNewer(LedgerOutdated):
    """A newer program made the schema: it is this program that is to be upgraded."""


class LedgerRefused(Exception):
    """The ledger answers, and refuses the values that it was given: a rule of its tables.

    Nothing was changed, and a repetition is refused as well. Who asks for many is never told this
    of all for the sake of one: each store sets that one apart.
    """
