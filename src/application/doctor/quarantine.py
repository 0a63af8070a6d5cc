"""What was set apart: runs, which the archive knows, and messages, of which some are of no run."""

from collections.abc import Iterator

from cronhare.domain.texts.words import counted
from cronhare.domain.topology import QUARANTINE_QUEUE
from cronhare.ports.inspection import BrokerGuide, Quarantined, Severity

from .finding import Finding


def judge_quarantine(
    runs: Quarantined | None, messages: int, guide: BrokerGuide | None
) -> Iterator[Finding]:
    """Judge what is set apart: *runs*, None if the ledger cannot tell, and as many *messages*.

    Without a *guide* no broker was asked for messages.
    A message stays when its run is resolved: it is no sign of anything that is left to do. There
    are more than runs only where a message was published that is of none.
    """
    if runs is not None and runs.unresolved:
        verb = "is" if runs.unresolved == 1 else "are"
        yield Finding(
            Severity.WARNING,
            "runs",
            f"{counted(runs.unresolved, 'run')} {verb} quarantined: crashing or restarting "
            "workers, refused by the database, or with a broken row",
            "`cronhare quarantine list` has the reasons; mend them, then `cronhare quarantine "
            "release ID`, or `cronhare quarantine discard ID`",
        )
    if guide is None or not messages:
        return
    kept = f"{counted(messages, 'message')} in {QUARANTINE_QUEUE}"
    if runs is not None and messages <= runs.of_late:
        severity, what = Severity.NOTE, f"{kept}, no more than runs were quarantined of late"
    else:
        severity, what = Severity.WARNING, f"{kept}, some of no run: unreadable, or without a home"
    if runs is None:
        what = f"{kept}: unreadable, without a home, or crashing workers"
    yield Finding(
        severity,
        "queues",
        what,
        "each message's headers say its reason. No replay needs them; once they are read: "
        f"{guide.purge(QUARANTINE_QUEUE)}",
    )
