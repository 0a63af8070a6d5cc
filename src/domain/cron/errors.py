"""What is wrong with a cron text: every fault at once, each with its place and a way out."""

import attrs


@attrs.frozen(kw_only=True)
class CronFault:
    """One fault of a cron text.

    *field* is "minute", "hour", "day of month", "month", "week day", or "expression" where the
    fault is not in a single field. *item* is the piece of input, shortened; *allowed* says what
    could stand there, *hint* what to write instead (empty where nothing better can be said).
    """

    field: str
    item: str
    reason: str
    allowed: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" + (f" ({self.hint})" if self.hint else "")


class CronExpressionError(ValueError):
    """A text that is no cron expression. `faults` holds every fault, in the order of the text."""

    def __init__(self, *faults: CronFault) -> None:
        super().__init__(*faults)  # so that args, and with them pickle, keep the faults
        self.faults = faults

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults))
