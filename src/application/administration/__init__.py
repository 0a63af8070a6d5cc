"""Use cases: what people and programs ask of the ledger.

Each of them may raise `LedgerUnavailable`; `NotFound` where something is asked for that does not
exist, with the names that come close; and `Refused` or `Invalid`, with all faults at once. Who
refuses has changed nothing. `entrypoints` say each of these to whoever asked, in one place.
"""


class Refused(ValueError):
    """What is asked for cannot be done as things are, and the text says why."""
