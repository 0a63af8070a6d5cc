"""A RabbitMQ broker for the tests, and fresh vhosts on it."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from typing import Protocol

import attrs
import pika
from pika.exceptions import AMQPError

from cronhare.domain.topology import MAIN_QUEUE, topology
from cronhare.ports.broker import LARGEST_TAKEN
from tests.services import lives
from tests.services.finding import address, binary, end, free_port, has_docker, missing, wait_until
from tests.services.lives import PATIENCE

ADDRESS = "CRON_TEST_BROKER_URL"
HINT = (
    f"set {ADDRESS}=amqp://user:password@host/vhost to a vhost that may be emptied, "
    "start Docker, or: apt-get install rabbitmq-server"
)
HURT = f"unset {ADDRESS}, and a private one is started"
IMAGE = "rabbitmq:4"

#: How many vhosts are made at a time.
_DOZEN = 12

#: The task queues that the tests use beside the main one.
TEST_QUEUES = ("cron_scheduler.reports", "cron_scheduler.mails")

#: Debian's wrappers in /usr/sbin change the user; the programs themselves are here.
_DEBIAN = Path("/usr/lib/rabbitmq/bin")


class Server(lives.Server, Protocol):
    def vhost(self) -> AbstractContextManager[str]: ...

    def control(self, *command: str) -> str: ...

    def evaluate(self, erlang: str) -> str:
        """Evaluate Erlang, written without its dot, in the broker; of one that is ours."""
        ...


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    given = address(ADDRESS)
    if given is not None:
        yield Given(given)
    elif has_docker():
        with _contained() as contained:
            yield contained
    elif _program("rabbitmq-server") is None or binary("epmd") is None:
        missing("RabbitMQ", HINT)
    else:
        private = Private(folder)
        try:
            private.start()
            yield private
        finally:
            private.end()


@contextmanager
def alarm(server: Server) -> Iterator[None]:
    """Have the broker believe that its memory is full: it reads no publisher's connection.

    Connections are told by whoever keeps the alarms, after the watermark is set: once that has
    answered, each has the news before whatever is published next.
    """
    server.evaluate(
        "vm_memory_monitor:set_vm_memory_high_watermark(0.000001),"
        "[_ | _] = rabbit_alarm:get_alarms()"
    )
    try:
        yield
    finally:
        server.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.4)")


def cut_all(server: Server) -> None:
    """Close all connections of the broker, as its operator would."""
    server.evaluate(
        '[rabbit_networking:close_connection(C, <<"a test">>)'
        " || C <- rabbit_networking:connections()]"
    )


def let(server: Server, user: str, password: str, vhost: str, *patterns: str) -> None:
    """Make a user, or let one that is there do something else: configure, write and read."""
    who, by = f'<<"{user}">>', '<<"tests">>'
    secret = f"<<{', '.join(map(str, password.encode()))}>>"
    configure, write, read = (f'<<"{pattern}">>' for pattern in patterns)
    server.evaluate(
        f"catch rabbit_auth_backend_internal:add_user({who}, {secret}, {by}),"
        f"ok = rabbit_auth_backend_internal:set_permissions({who}, "
        f'<<"{vhost}">>, {configure}, {write}, {read}, {by})'
    )


def forget(server: Server, user: str) -> None:
    server.evaluate(f'ok = rabbit_auth_backend_internal:delete_user(<<"{user}">>, <<"tests">>)')


#: Bytes that a message may have at a broker that works for us alone: twice our largest.
LARGEST_AT_BROKER = 2 * LARGEST_TAKEN


@contextmanager
def impatience(server: Server, *, seconds: float) -> Iterator[None]:
    """Have the broker take a message back that a consumer keeps for longer than *seconds*.

    It asks for its patience when a channel is opened, and looks at the clock once a minute; here
    it does so all the time.
    """
    _set_patience(server, seconds=seconds, look_every=0.25)
    try:
        yield
    finally:
        _set_patience(server, seconds=1_800, look_every=60)


def _set_patience(server: Server, *, seconds: float, look_every: float) -> None:
    server.evaluate(
        f"ok = application:set_env(rabbit, consumer_timeout, {seconds * 1000:.0f}),"
        f"ok = application:set_env(rabbit, channel_tick_interval, {look_every * 1000:.0f})"
    )


@attrs.frozen
class Given(lives.Lent):
    """An address from the environment: its vhost is emptied and used."""

    url: str

    @contextmanager
    def vhost(self) -> Iterator[str]:
        _empty(self.url)
        yield self.url
        _empty(self.url)

    def control(self, *command: str) -> str:
        raise NotImplementedError

    def evaluate(self, erlang: str) -> str:
        raise NotImplementedError


@attrs.define
class Private(lives.Private):
    """RabbitMQ, with ports for its own talk and a cookie."""

    _name: str = attrs.field(factory=lambda: f"cronhare-{token_hex(4)}@localhost")
    _settings: str = ""
    _vhosts: "Vhosts" = attrs.field(
        init=False, default=attrs.Factory(lambda self: Vhosts(self.evaluate), takes_self=True)
    )
    _names_port: int = attrs.field(factory=free_port)
    _distribution_port: int = attrs.field(factory=free_port)
    _names: subprocess.Popen[bytes] | None = None

    @contextmanager
    def vhost(self) -> Iterator[str]:
        with self._vhosts.fresh() as name:
            yield f"amqp://guest:guest@127.0.0.1:{self.port}/{name}"

    def control(self, *command: str) -> str:
        return self._run(_program("rabbitmqctl"), "--quiet", *command)

    def evaluate(self, erlang: str) -> str:
        """See `Server.evaluate`: as `rabbitmqctl eval` does, without its start of 0.7 s."""
        where = f"127.0.0.1:{self._distribution_port}"
        cookie = (self.folder / ".erlang.cookie").read_text()
        command = "-r", "-address", where, "-c", cookie, "-e"
        answer = self._run(binary("erl_call"), *command, told=f"{erlang}.\n")
        if not answer.startswith("{ok, "):
            raise RuntimeError(f"{erlang}: {answer}")
        return answer.removeprefix("{ok, ").removesuffix("}")

    def start(self) -> None:
        if self._names is None:
            self._start_names()
        (self.folder / "plugins").write_text("[].")
        settings = f"disk_free_limit.absolute = 50MB\n{self._settings}"
        (self.folder / "rabbitmq.conf").write_text(settings)
        self._launch(str(_program("rabbitmq-server")), env=self._environment())

    def share_names(self, other: "Private") -> None:
        self._names_port, self._names = other._names_port, other._names

    def accepts(self) -> bool:
        return _accepts(self.port)

    def kill(self) -> None:
        assert self._process is not None
        os.kill(self.pid, 9)
        self._process.wait(PATIENCE)

    def stop(self) -> None:
        assert self._process is not None
        self.control("stop")
        self._process.wait(PATIENCE)

    def end(self) -> None:
        """Leave nothing running. The data is thrown away, so nobody waits for a good-bye."""
        if self._process is not None and self._process.poll() is None:
            with suppress(OSError, ValueError):
                os.kill(self.pid, 9)
            end(self._process)
        if self._names is not None:
            end(self._names)

    @property
    def pid(self) -> int:
        """The broker's own word for it: the script that starts it is another process."""
        return int((self.folder / "pid").read_text())

    def _start_names(self) -> None:
        """Erlang would leave this one running for ever, so it is started here."""
        self._names = subprocess.Popen(
            [str(binary("epmd")), "-port", str(self._names_port), "-address", "127.0.0.1"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._has_names, seconds=PATIENCE, what="the start of epmd")

    def _has_names(self) -> bool:
        command = [str(binary("epmd")), "-port", str(self._names_port), "-names"]
        asked = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        return asked.returncode == 0

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),  # where Erlang keeps its cookie
            "ERL_EPMD_PORT": str(self._names_port),
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "ERL_CRASH_DUMP": str(self.folder / "erl_crash.dump"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            # It shares the machine with the tests: one scheduler, and no spinning.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
        }

    def _run(self, program: Path | None, *arguments: str, told: str = "") -> str:
        command = [str(program), *arguments]
        asked = subprocess.run(
            command,
            env=self._environment(),
            input=told,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if asked.returncode:
            raise RuntimeError(f"{' '.join(command)}: {asked.stdout}{asked.stderr}")
        return asked.stdout


def _program(name: str) -> Path | None:
    debian = _DEBIAN / name
    return debian if debian.exists() else binary(name)


def _accepts(port: int) -> bool:
    url = f"amqp://guest:guest@127.0.0.1:{port}/%2F"
    with suppress(AMQPError, OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
        pika.BlockingConnection(pika.URLParameters(url)).close()
        return True
    return False


def _empty(url: str) -> None:
    every = topology(retry_delay=timedelta(seconds=1), queues=(MAIN_QUEUE, *TEST_QUEUES))
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    for queue in every.queues:
        channel.queue_delete(queue.name)
    for exchange in every.exchanges:
        channel.exchange_delete(exchange.name)
    connection.close()


@attrs.define
class Vhosts:
    """Fresh vhosts, made and thrown away by the dozen."""

    evaluate: Callable[[str], str]
    _fresh: list[str] = attrs.field(factory=list)
    _used: list[str] = attrs.field(factory=list)

    @contextmanager
    def fresh(self) -> Iterator[str]:
        if not self._fresh:
            self._fresh = [f"test-{token_hex(4)}" for _ in range(_DOZEN)]
            self._change()
            self._used.clear()
        name = self._fresh.pop()
        yield name
        self._used.append(name)

    def _change(self) -> None:
        fresh, used = _names(self._fresh), _names(self._used)
        by, all_ = '<<"tests">>', '<<".*">>'
        self.evaluate(
            f"[rabbit_vhost:delete(V, {by}) || V <- {used}],"
            f"[begin ok = rabbit_vhost:add(V, {by}),"
            f" ok = rabbit_auth_backend_internal:set_permissions("
            f'<<"guest">>, V, {all_}, {all_}, {all_}, {by}) end || V <- {fresh}]'
        )


def _names(vhosts: Iterable[str]) -> str:
    return "[" + ", ".join(f'<<"{vhost}">>' for vhost in vhosts) + "]"


@contextmanager
def _contained() -> Iterator[Server]:
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - only with Docker

    port = free_port()
    container = DockerContainer(IMAGE).with_bind_ports(5672, port)
    with container:
        contained = Contained(port, container)
        contained.wait()
        yield contained


@attrs.define
class Contained(lives.Contained):
    _vhosts: "Vhosts" = attrs.field(
        init=False, default=attrs.Factory(lambda self: Vhosts(self.evaluate), takes_self=True)
    )

    @contextmanager
    def vhost(self) -> Iterator[str]:
        with self._vhosts.fresh() as name:
            yield f"amqp://guest:guest@127.0.0.1:{self.port}/{name}"

    def control(self, *command: str) -> str:
        status, output = self.container.exec(["rabbitmqctl", "--quiet", *command])
        text: str = output.decode()
        if status:
            raise RuntimeError(f"rabbitmqctl {' '.join(command)}: {text}")
        return text

    def evaluate(self, erlang: str) -> str:
        return self.control("eval", f"{erlang}.")

    def accepts(self) -> bool:
        return _accepts(self.port)
