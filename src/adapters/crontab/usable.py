"""The cron expressions that an imported schedule may have."""

from cronhare.domain.cron import CronExpression


def parse_usable(text: str) -> CronExpression:
    """Parse a cron expression, and refuse what no schedule may have because it never fires.

    Raises:
        ValueError: with the reason.
    """
    expression = CronExpression.parse(text)
    if not expression.fires:
        raise ValueError(f"it never fires: {expression.why_never}")
    return expression
