"""What every part of the ledger has in common."""


class LedgerUnavailable(Exception):
    """The ledger could not be asked: it is locked, full, away, or of another version.

    Whether a change that was under way took place is unknown, as a COMMIT may be written whose
    answer is lost; unless *changed_nothing* says that surely none did. Every change of the ports
    can be repeated: it then happens once, or is answered as already done.
    """

    def __init__(self, text: str = "", *, changed_nothing: bool = False) -> None:
        """Say what was under way, and why it could not be done."""
        self.changed_nothing = changed_nothing
        super().__init__(text)


class LedgerBusy(LedgerUnavailable):
    """Somebody else holds the one row that was asked for; all others can be had."""


class LedgerOutdated(LedgerUnavailable):
    """There is no ledger, or one with another schema: the sentence says what to do.

    No pause mends it.
    """


class LedgerNewer(LedgerOutdated):
    """A newer program made the schema: it is this program that is to be upgraded."""


class LedgerRefused(Exception):
    """The ledger answers, and refuses the values that it was given: a rule of its tables.

    Nothing was changed, and a repetition is refused as well. Of the batches of schedulers and
    workers none is refused for the sake of one: each store sets that one apart (ADR 31), and where
    nothing at all is accepted it is `LedgerUnavailable`. What a person asks for is refused as a
    whole, as that person can change it.
    """
