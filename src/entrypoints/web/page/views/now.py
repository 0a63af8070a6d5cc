"""*Now*, *Keys*, *Queues and nodes*, *Alerts* and *Audit*: what is, and who changed what."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import attrs

from cronhare.application.administration.reading.alerts import AlertView
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.events.alerts import nobody_judged
from cronhare.domain.events.rules import AlertSeverity, Rule
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import UNRESOLVED
from cronhare.domain.nodes import NodeState, is_a_scheduler
from cronhare.domain.reading import REQUIRED
from cronhare.ports.events import AlertFilter
from cronhare.ports.inspection import OVERDUE_AFTER
from cronhare.ports.records import ExecutionFilter

from ...api.facts import Facts, WhichAlerts, WhichChanges
from ...operations import Call, Reply, Resource
from ...reading import Named
from ..pages import Context, Done, acts, shows
from ..pictures import minutes_chart
from ..rendering import schedule_path

#: So much of each kind is listed, and so much is counted; above that there are more.
_LISTED: Final = 12
_COUNTED: Final = 1_000

#: So many failures, the newest, are grouped by their schedules.
_GROUPED: Final = 100

#: So far ahead it is looked, in minutes.
_AHEAD: Final = 60

#: So far back schedules are looked for that nobody has claimed.
_BACK: Final = timedelta(days=36_500)

_UNDER_WAY: Final = frozenset({State.RUNNING, State.RETRYING})

PATH: Final = "/ui/queues"
_HEARD: Final = "It hears of it with its next report, within 3 s."


@attrs.frozen(kw_only=True)
class WhichNode:
    """A node, by its name."""

    node: Named = attrs.field(default="-", metadata=REQUIRED)


@attrs.frozen(kw_only=True)
class WhichTask:
    """A task with a circuit breaker."""

    task: Named = attrs.field(default="-", metadata=REQUIRED)


class Now(Resource):
    """What happens now."""

    @shows("/", "now.html", live=2)
    def show_now(self) -> Context:
        """Show what runs, is late, fails, and comes within the hour.

        *late* are schedules that no scheduler has claimed in time, *waiting* executions that no
        worker has begun.
        """
        overview, queries = self._container.overview_store(), self._container.queries()
        now, most = queries.now(), _COUNTED + 1
        overdue, soon = now - OVERDUE_AFTER, now + timedelta(minutes=_AHEAD)
        late = overview.coming(now - _BACK, overdue, limit=most)
        waiting = overview.waiting(overdue, limit=most)
        coming = overview.coming(now, soon, limit=_LISTED)
        minutes = [0] * _AHEAD
        for at, count in overview.count_coming(now, soon).items():
            minutes[min(_AHEAD - 1, int((at - now).total_seconds() // 60))] += count
        unresolved = self._container.records().archive(UNRESOLVED, limit=_GROUPED)
        failures = Counter(row.schedule_name for row in unresolved)
        newest = {row.schedule_name: row for row in reversed(unresolved)}
        nodes = queries.nodes()
        view = {
            "running": queries.executions(ExecutionFilter(states=_UNDER_WAY, limit=_LISTED)),
            "late": late[:_LISTED],
            "late_count": len(late),
            "waiting": [queries.execution(id_).execution for id_ in sorted(waiting)[:_LISTED]],
            "waiting_count": len(waiting),
            "failing": [(newest[name], failures[name]) for name in failures][:_LISTED],
            "found": overview.count(most=most),
            "coming": coming,
            "coming_count": sum(minutes),
            # Asked only where it may say why nothing comes: it looks at each schedule.
            "unplanned_count": 0 if coming else overview.count_unplanned(most=most),
            "is_planned_soon": any(is_a_scheduler(n.role) and not n.silent for n in nodes.nodes),
            "latest": queries.executions(ExecutionFilter(limit=_LISTED)),
            "nodes": nodes,
            "counted": _COUNTED,
        }
        return {"view": view, "now": now, "chart": minutes_chart(minutes)}

    @shows("/ui/keys", "keys.html")
    def list_keys(self) -> Context:
        return {"now": None}


class Work(Resource):
    """Queues, nodes, and the limits of retries."""

    @shows(PATH, "queues.html", live=5)
    def show_work(self) -> Context:
        queries, limits = self._container.queries(), self._container.limit_desk()
        nodes = queries.nodes()
        working = [node for node in nodes.nodes if node.state is NodeState.AT_WORK]
        return {
            "queues": queries.queues(),
            "nodes": nodes,
            "served": {queue for node in working for queue in node.queues},
            "budgets": limits.budgets(),
            "breakers": limits.breakers(),
        }

    @acts("/ui/nodes/drain")
    def drain(self, body: WhichNode, call: Call) -> Done:
        node = self._container.node_desk().drain(body.node, actor=call.actor)
        return Done(PATH, f"{node.name} is {node.state}. {_HEARD}")

    @acts("/ui/nodes/undrain")
    def undrain(self, body: WhichNode, call: Call) -> Done:
        node = self._container.node_desk().undrain(body.node, actor=call.actor)
        return Done(PATH, f"{node.name} is {node.state}. {_HEARD}")

    @acts("/ui/nodes/forget")
    def forget(self, body: WhichNode, call: Call) -> Done:
        node = self._container.node_desk().forget(body.node, actor=call.actor)
        return Done(PATH, f"{node.name} is forgotten.")

    @acts("/ui/breakers/reset")
    def reset(self, body: WhichTask, call: Call) -> Done:
        was = self._container.limit_desk().reset(body.task, actor=call.actor)
        return Done(PATH, f"The circuit breaker of {was.called} counts anew.")


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
        reply = Facts(self._asker).list_audit(query)
        shown = [(each, differences(each.before, each.after)) for each in reply.value]
        return Reply({"found": shown}, after=reply.after)


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
