"""Saying which targets this process cannot tell, before there is anything to tell."""

import logging
from collections.abc import Collection

from cronhare.application.logs import say
from cronhare.domain.schedules.notify import ByApprise, ByWebhook, Subscriptions
from cronhare.domain.schedules.untellable import untellable

from ..settings.settings import Settings

log = logging.getLogger(__name__)


def warn_of_untellable(subscriptions: Subscriptions, settings: Settings) -> Collection[str]:
    """Log them: an error where a secret is wanting, a warning where mail was never set up.

    Returns their names.
    """
    lacking = untellable(subscriptions, has_mail=settings.mail_server is not None)
    for name, why in lacking.items():
        needs_secret = isinstance(subscriptions.targets[name].means, ByWebhook | ByApprise)
        level = logging.ERROR if needs_secret else logging.WARNING
        text = f"notify.{name} cannot be told by this process: {why}. The rest goes on"
        say(log, level, "notify.lacking", text)
    return lacking.keys()
