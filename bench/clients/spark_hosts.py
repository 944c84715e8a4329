"""Starts a secured cluster and a standalone Spark cluster, with each node and each Spark worker on a host of its own.

    .venv/bin/python -m bench.clients.spark_hosts DIRECTORY       until standard input ends

    this process, the drivers, Spark's master: 10.88.0.254
      ├── node 1: 10.88.0.1     node 2: 10.88.0.2     node 3: 10.88.0.3
      └── worker 1: 10.88.0.101     worker 2: 10.88.0.102         one core each

A host is a network namespace (`chaos.live.hosts`). The workers have their own mount namespaces, too. In these, the
files of the nodes, the files of the drivers and the packages of ledgermq are hidden, as they are on another machine.
So executors have the code of ledgermq from the driver only, and its dependencies from the virtual environment.

    DIRECTORY/
      site.json   the addresses, the variables of the clients, and the pid of this process, when all runs
      ca.pem      the authority of the nodes, which every host can read
      driver/     hidden from the workers: files of the drivers
      nodes/      hidden from the workers: the nodes
      spark/      the logs of the master and the workers, and the work directories of the workers

The program needs root, iproute2 and util-linux.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos.errors import ChaosError
from chaos.live.hosts import namespaces
from chaos.live.hosts.environment import EnvironmentSetup
from chaos.live.hosts.local import LocalEnvironment
from chaos.live.hosts.namespaces import Namespaces
from chaos.live.hosts.node_security import NodeSecurity, clients_of
from chaos.live.hosts.shell import need_programs, need_root
from chaos.live.operator import ClusterOperator

HUB = f"{namespaces.NETWORK}.254"
MASTER = f"spark://{HUB}:7077"
NODES = 3
# The number of the first worker's address.
_FIRST = 101
_WAIT_S = 60.0
_PACKAGES = (
    *("bench", "chaos", "cluster", "ledger", "ledgermq", "pyspark_ledgermq", "pyspark_ledgermq_log"),
    *("raft", "store", "tests"),
)
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class SparkSite:
    """What a driver needs to know."""

    pid: int
    master: str
    bootstrap: str
    # The HTTP addresses of the nodes.
    http: tuple[str, ...]
    # By worker: its host's address.
    workers: tuple[str, ...]
    # The environment variables by which a driver on this host proves that it is the administrator.
    administrator: Mapping[str, str]
    ca: str

    @classmethod
    def load(cls, directory: Path) -> SparkSite:
        """Read `site.json`. Raises OSError if the hosts are not up yet."""
        values = json.loads((directory / "site.json").read_text(encoding="utf-8"))
        return cls(**{**values, "http": tuple(values["http"]), "workers": tuple(values["workers"])})


@contextmanager
def spark_hosts(directory: Path, *, workers: int = 2, shards: int = 2) -> Iterator[SparkSite]:
    """Move this process into a network of its own, start everything, and end everything after the `with` block.

    Raises ChaosError.
    """
    need_root("bench.clients.spark_hosts")
    need_programs({**namespaces.PROGRAMS, "unshare": "util-linux", "mount": "mount"})
    for each in ("driver", "nodes", "spark"):
        (directory / each).mkdir(parents=True, exist_ok=True)
    setup = EnvironmentSetup(
        directory / "nodes", NODES, settings={"shards": shards, "segment_bytes": 64 << 20}, secure=True
    )
    environment = LocalEnvironment(setup)
    with ExitStack() as undo:
        undo.enter_context(clients_of(setup.directory, secure=True))
        undo.callback(environment.down)
        environment.up()
        security = NodeSecurity(setup.directory)
        shutil.copy(security.ca, directory / "ca.pem")
        hosts = Namespaces(f"ledgermq-spark-{os.getpid()}")
        spark = _Processes(directory)
        undo.callback(spark.end)
        master = ("org.apache.spark.deploy.master.Master", "--host", HUB, "--port", "7077", "--webui-port", "0")
        spark.start("master", master, HUB)
        for number in range(_FIRST, _FIRST + workers):
            undo.callback(hosts.remove, number)
            hosts.add(number)
            spark.start_worker(number - _FIRST + 1, hosts, number)
        undo.callback(spark.end)  # before the namespaces are removed
        operator = ClusterOperator(environment)
        undo.callback(operator.close)
        operator.ready(_WAIT_S)
        spark.wait_registered(workers)
        nodes = range(1, NODES + 1)
        yield SparkSite(
            pid=os.getpid(),
            master=MASTER,
            bootstrap=",".join(map(environment.address, nodes)),
            http=tuple(f"https://{environment.http(node)}" for node in nodes),
            workers=tuple(hosts.address(number) for number in range(_FIRST, _FIRST + workers)),
            administrator=security.client_variables(),
            ca=str(directory / "ca.pem"),
        )


class _Processes:
    """The master and the workers of Spark."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: list[subprocess.Popen[bytes]] = []

    def start_worker(self, name: int, hosts: Namespaces, number: int) -> None:
        """Start a worker with one core on a host, in a mount namespace in which other hosts' files are hidden."""
        root = Path(__file__).resolve().parents[2]
        hidden = [root / each for each in _PACKAGES]
        hidden += [self._directory / each for each in ("driver", "nodes")]
        host = hosts.address(number)
        work = self._directory / "spark" / f"worker-{name}"
        words = ("--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(work), "--webui-port", "0", MASTER)
        mounts = "".join(f"mount -t tmpfs none {shlex.quote(str(each))} && " for each in hidden if each.is_dir())
        prefix = [*hosts.of(number).prefix, "unshare", "--mount", "sh", "-c", f'{mounts} exec "$@"', "sh"]
        self.start(f"worker-{name}", ("org.apache.spark.deploy.worker.Worker", *words), host, prefix)

    def start(self, name: str, words: Sequence[str], host: str, prefix: Sequence[str] = ()) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        variables = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _JAVA,
        }
        # No user, no path of ledgermq's code, and no settings of a local session.
        ours = ("LEDGERMQ_", "PYSPARK_", "PYTHONPATH", "SPARK_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [*prefix, str(home / "bin" / "spark-class"), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**kept, **variables},
                cwd=self._directory / "spark",
                start_new_session=True,
            )
        self._running.append(process)

    def log(self, name: str) -> Path:
        return self._directory / "spark" / f"{name}.log"

    def wait_registered(self, workers: int) -> None:
        """Wait until the master has all workers. Raises ChaosError with the end of a log."""
        deadline = time.monotonic() + _WAIT_S
        names = [f"worker-{number}" for number in range(1, workers + 1)]
        while missing := [name for name in names if "Successfully registered" not in _text(self.log(name))]:
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._running):
                ends = "\n".join(_text(self.log(name))[-2000:] for name in ("master", missing[0]))
                raise ChaosError(f"Spark's {missing[0]} did not register with the master:\n{ends}")
            time.sleep(0.1)

    def end(self) -> None:
        """End the processes. A worker ends its executors when it ends."""
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shards", type=int, default=2)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    directory = given.directory.resolve()
    with spark_hosts(directory, workers=given.workers, shards=given.shards) as site:
        partial = directory / "site.partial"
        partial.write_text(json.dumps(asdict(site)), encoding="utf-8")
        partial.rename(directory / "site.json")
        print(json.dumps(asdict(site), indent=2), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
