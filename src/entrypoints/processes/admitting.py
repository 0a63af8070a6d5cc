"""No address that others reach is opened while nobody could say who asks."""

from cronhare.ports import LedgerOutdated

from ..container import Container
from ..settings.settings import SettingsInvalid


def refuse_without_token(container: Container) -> None:
    """Refuse an address of CRON_WEB_ADDRESS that others reach, unless there is a valid token.

    Raises:
        SettingsInvalid: there is none, with how to make one.
        LedgerUnavailable: nobody can tell yet.
    """
    settings = container.settings()
    if settings.listen_address.is_loopback:
        return
    try:
        if container.token_desk().valid(now=container.ledger_time().now()):
            return
    except LedgerOutdated:
        pass  # where no ledger is, or an older one, no token is either
    fault = (
        f"{settings.called('web_address')}: {settings.listen_address.host} is no loopback address: "
        "others reach it, and there is no valid token by which it would be known who asks. Make "
        "one (cronhare tokens create NAME --scope admin), and start this again"
    )
    raise SettingsInvalid((fault,))
