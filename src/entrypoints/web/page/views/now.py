"""*Now*, *Keys*, and *Queues and nodes*: what runs, where work waits, and who takes it."""

from typing import Final

import attrs

from cronhare.domain.nodes import NodeState
from cronhare.domain.reading import REQUIRED

from ...operations import Call, Resource
from ...reading import Named
from ..pages import Context, Done, acts, shows
from ..pictures import minutes_chart

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
        view = self._container.overview().now()
        return {"view": view, "now": view.now, "chart": minutes_chart(view.coming_minutes)}

    @shows("/ui/keys", "keys.html")
    def list_keys(self) -> Context:
        return {"now": None}


class Work(Resource):
    """Queues, nodes, and the limits of retries."""

    @shows(PATH, "queues.html", live=5)
    def show_work(self) -> Context:
        queries, limits = self._container.queries(), self._container.limit_views()
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
