"""A Galera cluster of three private MariaDB nodes on loopback."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy, copytree
from typing import Final

import attrs
from sqlalchemy import URL

from tests.services.finding import binary, free_port, missing, wait_until
from tests.services.lives import PATIENCE
from tests.services.mariadb import Private, run

PROVIDER: Final = Path("/usr/lib/galera/libgalera_smm.so")
HINT: Final = "apt-get install mariadb-server galera-4 rsync"
NODES: Final = 3

#: How soon a node that says nothing is put out of the cluster: soon, for the tests' sake.
_IMPATIENT: Final = (
    "evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;"
    "evs.inactive_check_period=PT0.5S;evs.install_timeout=PT4S;gcache.size=16M"
)


#: What carries the state over. As root it would work as nobody, and may not write then.
_TRANSFER: Final = Path("/usr/bin/wsrep_sst_rsync")
_COMMON: Final = Path("/usr/bin/wsrep_sst_common")


def why_none() -> str | None:
    """Say what is missing here for a cluster; None if nothing is."""
    there = (
        PROVIDER.exists()
        and _TRANSFER.exists()
        and all(map(binary, ("mariadbd", "mariadb-install-db", "rsync")))
    )
    return None if there else f"no Galera cluster to test with: {HINT}"


@attrs.define
class Node(Private):
    """One of the nodes. It is a member of *cluster*, the addresses of all."""

    cluster: str = ""
    group: int = attrs.field(factory=free_port)
    state: int = attrs.field(factory=free_port)
    increments: int = attrs.field(factory=free_port)
    is_first: bool = False

    def begin(self) -> None:
        self.is_first = True
        self.start()
        self.is_first = False

    def start(self) -> None:
        """See `Server.start`. After a kill it asks for what it has missed, not for everything."""
        data = self.folder / "data"
        if not data.exists():
            self._install(data)
        position = self._position(data) if (data / "grastate.dat").exists() else []
        env = os.environ | {"PATH": f"{self._tools()}:{os.environ.get('PATH', os.defpath)}"}
        self._launch(str(binary("mariadbd")), *self._options(data), *position, env=env)

    def _tools(self) -> Path:
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        ours = f"use chroot = no\nuid = {os.geteuid()}\ngid = {os.getegid()}\n"
        script = _TRANSFER.read_text().replace("use chroot = no\n", ours)
        (tools / "wsrep_sst_ours").write_text(script)
        (tools / "wsrep_sst_ours").chmod(0o755)
        copy(_COMMON, tools)
        return tools

    def be_like(self, other: "Node") -> None:
        copytree(other.folder / "data", self.folder / "data")
        (self.folder / "data" / "gvwstate.dat").unlink(missing_ok=True)
        (self.folder / "data" / "galera.cache").unlink(missing_ok=True)

    def _position(self, data: Path) -> list[str]:
        log = self.folder / "recovery.log"
        log.unlink(missing_ok=True)
        command = [str(binary("mariadbd")), *self._options(data)]
        recover = ["--wsrep-recover", "--skip-networking", f"--log-error={log}"]
        subprocess.run([*command, *recover], check=True, capture_output=True, timeout=PATIENCE)
        found = re.findall(r"Recovered position: *(\S+)", log.read_text())
        return [f"--wsrep-start-position={found[-1]}"]

    def is_synced(self) -> bool:
        try:
            [(_, said)] = run(self.url, "SHOW STATUS LIKE 'wsrep_local_state_comment'")
        except Exception:  # noqa: BLE001 - not yet
            return False
        return bool(said == "Synced")

    def accepts(self) -> bool:
        return self.is_synced()

    def _options(self, data: Path) -> list[str]:
        here = "127.0.0.1"
        provider = (
            f"base_host={here};base_port={self.group};"
            f"gmcast.listen_addr=tcp://{here}:{self.group};"
            f"ist.recv_addr={here}:{self.increments};{_IMPATIENT}"
        )
        plain = super()._options(data)
        if not self.is_first:  # the users come with the state
            plain = [option for option in plain if not option.startswith("--init-file")]
        return [
            *plain,
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
            "--innodb-flush-log-at-trx-commit=1",
            "--wsrep-on=ON",
            f"--wsrep-provider={PROVIDER}",
            f"--wsrep-provider-options={provider}",
            "--wsrep-cluster-name=cronhare-tests",
            f"--wsrep-cluster-address=gcomm://{self.cluster}",
            f"--wsrep-node-address={here}:{self.group}",
            f"--wsrep-node-name=node-{self.port}",
            "--wsrep-sst-method=ours",
            f"--wsrep-sst-receive-address={here}:{self.state}",
            *(["--wsrep-new-cluster"] if self.is_first else []),
        ]


@attrs.frozen
class Cluster:
    """What the faults hurt; *url* names all nodes, *first* one of them."""

    nodes: tuple[Node, ...]
    is_ours: bool = True

    @property
    def url(self) -> URL:
        return next(node for node in self.nodes if node.is_synced()).url

    def addresses(self, database: str) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"mysql+pymysql://tester:tester@{hosts}/{database}"

    def kill(self) -> None:
        """Not what a cluster is for: see its nodes."""
        raise NotImplementedError

    stop = start = kill


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    if why := why_none():
        missing("Galera", why)
    nodes = tuple(_node(folder / f"galera-{number}") for number in range(NODES))
    members = ",".join(f"127.0.0.1:{node.group}" for node in nodes)
    try:
        for node in nodes:
            node.cluster = members
        nodes[0].begin()
        nodes[0].stop()
        for node in nodes[1:]:
            node.be_like(nodes[0])
        nodes[0].begin()
        for node in nodes[1:]:
            node.start()
        wait_until(lambda: all(node.is_synced() for node in nodes), seconds=60, what="the cluster")
        yield Cluster(nodes)
    finally:
        for node in reversed(nodes):
            node.stop()


def _node(folder: Path) -> Node:
    folder.mkdir(parents=True)
    return Node(folder)
