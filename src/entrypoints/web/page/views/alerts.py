"""*Alerts* and *Audit*: what is wrong and who was told of it, and who changed what."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.views.alerts import AlertView
from cronhare.domain.events.alerts import nobody_judged
from cronhare.domain.events.rules import AlertSeverity, Rule
from cronhare.ports.events import AlertFilter

from ...api.facts import WhichAlerts, WhichChanges
from ...operations import Reply, Resource, last_id
from ..pages import Context, shows
from ..rendering import schedule_path

#: Where to look first, by the rule.
_PLACES: Final[Mapping[str, tuple[str, str]]] = {
    Rule.FAILED: ("/ui/failed", "Failed"),
    Rule.GROWING: ("/ui/failed", "Failed"),
    Rule.CRITICAL: ("/ui/failed", "Failed"),
    Rule.RETRIES: ("/ui/executions?state=retrying", "What waits for a retry"),
    Rule.RETRY_RATE: ("/ui/executions", "Executions"),
    Rule.SCHEDULER: ("/ui/queues#nodes", "Nodes"),
    Rule.UNSENT: ("/ui/queues", "Queues and nodes"),
    Rule.QUEUE: ("/ui/queues", "Queues and nodes"),
    Rule.NODE: ("/ui/queues#nodes", "Nodes"),
}


class Alerts(Resource):
    """What is wrong now."""

    @shows("/ui/alerts", "alerts.html", live=5)
    def list_alerts(self, query: WhichAlerts) -> Reply[Context]:
        which = query.filter
        desk = self._container.alert_desk()
        shown: Context = {
            "severities": AlertSeverity,
            "is_all": which == AlertFilter() and query.after is None,
            "is_unjudged": nobody_judged,
            "look_at": look_at,
        }
        try:
            page = desk.alerts(which, after=query.after, limit=query.limit)
        except NotFound as error:  # when the ledger was judged is told all the same
            return Reply({**shown, "page": desk.none(), "unknown": str(error), "live": 0}, 404)
        return Reply({**shown, "page": page}, after=page.after)


def look_at(alert: AlertView) -> tuple[str, str]:
    execution = alert.data.get("executionId")
    if type(execution) is int and execution > 0:
        return f"/ui/executions/{execution}", f"Execution {execution}"
    if alert.schedule_name is not None:
        return schedule_path(alert.schedule_name), "Its schedule"
    return _PLACES.get(alert.rule, ("/ui/queues", "Queues and nodes"))


class Audit(Resource):
    """Who changed what, from what, to what."""

    @shows("/ui/audit", "audit.html")
    def list_changes(self, query: WhichChanges) -> Reply[Context]:
        found = self._container.audit().entries(
            since=query.since,
            actor=query.actor,
            target=query.target,
            before=query.after,
            limit=query.limit,
        )
        shown = [(each, differences(each.before, each.after)) for each in found]
        return Reply({"found": shown}, after=last_id(found, limit=query.limit))


@attrs.frozen(kw_only=True)
class Difference:
    """A member that a change has given another value; *name* is None where there are no members."""

    name: str | None
    before: Any
    after: Any


def differences(before: Any, after: Any) -> list[Difference]:  # noqa: ANN401 - JSON values
    """Name the members of two values that differ; all of one that stands alone.

    >>> differences({"a": 1, "b": 2}, {"a": 1, "b": 3})
    [Difference(name='b', before=2, after=3)]
    """
    ours, theirs = (({} if each is None else each) for each in (before, after))
    if not isinstance(ours, Mapping) or not isinstance(theirs, Mapping):
        return [Difference(name=None, before=before, after=after)]
    return [
        Difference(name=name, before=ours.get(name), after=theirs.get(name))
        for name in dict.fromkeys([*ours, *theirs])
        if name not in ours or name not in theirs or ours[name] != theirs[name]
    ]
