"""A RabbitMQ cluster of private nodes on loopback, whose nodes can be killed one by one."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

import attrs

from tests.services.finding import wait_until
from tests.services.lives import PATIENCE
from tests.services.rabbitmq import Private, Vhosts

MANY = 3


@attrs.define
class Cluster:
    """Nodes that know each other. What is asked of it is asked of any that lives."""

    nodes: list[Private]
    is_ours: bool = True
    _vhosts: Vhosts = attrs.field(
        init=False, default=attrs.Factory(lambda self: Vhosts(self.evaluate), takes_self=True)
    )

    @contextmanager
    def vhost(self) -> Iterator[str]:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        with self._vhosts.fresh() as name:
            yield f"amqp://guest:guest@{hosts}/{name}"

    def control(self, *command: str) -> str:
        return self._living().control(*command)

    def evaluate(self, erlang: str) -> str:
        return self._living().evaluate(erlang)

    def _living(self) -> Private:
        return next(node for node in self.nodes if node.accepts())

    def kill(self) -> None:
        """Not what a cluster is for: see its nodes."""
        raise NotImplementedError

    stop = start = kill


@contextmanager
def cluster(folder: Path, *, many: int = MANY) -> Iterator[Cluster]:
    cookie, mark = token_hex(16), token_hex(4)
    names = [f"cronhare-{mark}-{n}@localhost" for n in range(many)]
    nodes: list[Private] = []
    try:
        for n, name in enumerate(names):
            place = folder / str(n)
            place.mkdir(parents=True)
            node = Private(place, name=name, settings=_settings(names[: n + 1]))
            if nodes:
                node.share_names(nodes[0])
            _keep(place / ".erlang.cookie", cookie)
            nodes.append(node)
            node.start()
        whole = Cluster(nodes)
        wait_until(
            lambda: whole.evaluate("length(rabbit_nodes:all_running())") == str(many),
            seconds=PATIENCE,
            what="the meeting of all nodes",
        )
        yield whole
    finally:
        for node in reversed(nodes):
            with suppress(OSError):
                node.end()


def _settings(names: list[str]) -> str:
    backend = "cluster_formation.peer_discovery_backend = classic_config\n"
    each = (
        f"cluster_formation.classic_config.nodes.{n} = {name}\n" for n, name in enumerate(names, 1)
    )
    return backend + "".join(each)


def _keep(path: Path, cookie: str) -> None:
    """Erlang wants it to be its owner's alone."""
    path.write_text(cookie)
    path.chmod(0o400)
