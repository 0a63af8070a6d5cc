"""What the use cases need from outside, as Protocols whose docstrings are promises.

What the contract suites in tests/integration do not assert is not promised. Every method of a
ledger's port may raise `LedgerUnavailable`; the call can then be repeated, unless it says
otherwise. Stores are safe to share between threads, processes and hosts; times are aware, in UTC.
"""


class LedgerUnavailable(Exception):
    """The ledger could not be asked: it is locked, full, away, or of another version.

    A change may have taken place, as the answer to a COMMIT may be lost; with *changed_nothing*
    none did. Each change of the ports can be repeated: it happens once, or is answered as done.
    """

    def __init__(self, text: str = "", *, changed_nothing: bool = False) -> None:
        """Say what was under way, and why it could not be done."""
        self.changed_nothing = changed_nothing
        super().__init__(text)


class LedgerBusy(LedgerUnavailable):
    """Another session holds the row that was asked for; others can be had."""


class LedgerOutdated(LedgerUnavailable):
    """There is no ledger, or one with another schema: the text says what to do, not to wait."""


class LedgerNewer(LedgerOutdated):
    """A newer release made the schema: upgrade this one."""


class LedgerRefused(Exception):
    """The ledger is there, and a rule of its tables refuses the values.

    Nothing was changed, and a repetition is refused as well. One value does not refuse a batch of
    a scheduler or worker: the store sets it apart (ADR 15), and raises `LedgerUnavailable` where
    nothing at all is accepted. A person's request is refused as a whole: that person can change it.
    """
