"""Saying which targets this process cannot tell, before there is anything to tell."""

import logging

from cronhare.application.logs import say
from cronhare.domain.schedules.notify import ByApprise, ByWebhook
from cronhare.domain.schedules.untellable import untellable

from ..container import Container

log = logging.getLogger(__name__)


def warn_of_untellable(container: Container) -> None:
    """Log them: an error where a secret is wanting, a warning where mail was never set up."""
    subscriptions = container.subscribers().current
    has_mail = container.settings().mail_server is not None
    for name, why in untellable(subscriptions, has_mail=has_mail).items():
        needs_secret = isinstance(subscriptions.targets[name].means, ByWebhook | ByApprise)
        level = logging.ERROR if needs_secret else logging.WARNING
        text = f"notify.{name} cannot be told by this process: {why}. The rest goes on"
        say(log, level, "notify.lacking", text)
