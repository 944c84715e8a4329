"""Test clusters as a user's tests use them: real processes that are killed, paused and parted, and leave nothing."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster.testing.processes import forking_process
from ledgermq import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer
from ledgermq.testing import AsyncCluster, Cluster, ClusterError
from tests.cluster.testing.running import runs
from tests.cluster.waiter import blocking_eventually

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.restore()


def values(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    with Consumer(topic, bootstrap_servers=cluster.bootstrap) as consumer:
        return [next(iter(consumer)).value for _ in range(count)]


def test_a_killed_leader_is_a_killed_process(cluster: Cluster) -> None:
    topic = cluster.create_topic(queues=2)
    with Producer(cluster.bootstrap) as producer:
        producer.send(topic, b"before")
        leader = cluster.leader()
        pid = cluster._processes[leader].pid
        assert b"python" in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert cluster.kill_leader() == leader
        assert not cluster.is_whole()
        assert refuses(cluster.address(leader))
        producer.send(topic, b"after")
    assert cluster.leader() != leader
    cluster.restart(leader)
    assert cluster.is_whole()
    assert sorted(values(cluster, topic, 2)) == [b"after", b"before"]


def refuses(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_paused_leader_is_replaced_and_comes_back(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.pause(leader)
    assert process_state(cluster, leader) == "T"
    assert cluster.leader() != leader
    cluster.resume(leader)
    blocking_eventually(lambda: follows(cluster, leader), "the paused node follows the new leader")


def process_state(cluster: Cluster, node: int) -> str:
    stat = Path(f"/proc/{cluster._processes[node].pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0]


def follows(cluster: Cluster, node: int) -> bool:
    state = next(state for state in cluster._observe() if state.id == node)
    return state.role == "follower" and state.leader not in (0, node)


def test_an_isolated_leader_loses_the_majority_until_the_partition_heals(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    old = cluster.leader()
    cluster.partition([old])
    blocking_eventually(lambda: leader_but(cluster, old), "the majority elects another leader")
    with Producer(cluster.bootstrap) as producer:
        producer.send(topic, b"to the majority")
    assert not follows(cluster, old)  # it hears nothing of the new leader
    cluster.heal()
    blocking_eventually(lambda: follows(cluster, old), "the isolated node follows the new leader")
    assert values(cluster, topic, 1) == [b"to the majority"]


def leader_but(cluster: Cluster, node: int) -> int:
    leader = cluster.leader()
    return 0 if leader == node else leader


def test_three_sides_have_no_leader(cluster: Cluster) -> None:
    cluster.partition([1], [2], [3])
    blocking_eventually(lambda: all(state.role != "leader" for state in cluster._observe()), "every leader steps down")
    with pytest.raises(ClusterError, match=r"shard 0 has had no leader for 0\.1 s: node 1 is"):
        cluster.leader(timeout_s=0.1)


def test_clients_get_the_addresses_of_the_nodes_and_not_of_the_links(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        nodes = {status.address for status in admin.cluster()}
    assert nodes == set(cluster.bootstrap.split(","))


async def test_the_asynchronous_twin_leaves_the_loop_free() -> None:
    async with Cluster(settings={"tick_ms": 20}) as cluster:
        assert isinstance(cluster, AsyncCluster)
        topic = await cluster.create_topic()
        async with AsyncProducer(cluster.bootstrap) as producer:
            await producer.send(topic, b"one")
            await cluster.kill_leader()
            await cluster.restart(1)
            await producer.send(topic, b"two")
        async with AsyncConsumer(topic, bootstrap_servers=cluster.bootstrap) as consumer:
            assert [(await anext(consumer)).value for _ in range(2)] == [b"one", b"two"]
        assert "tick_ms = 20" in (cluster.directory / "node-1/node.toml").read_text()


def test_the_twin_has_every_method() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(Cluster) - {"aio"} == public(AsyncCluster)


def test_a_stopped_cluster_leaves_no_process_and_no_file() -> None:
    cluster = Cluster(nodes=3)
    with cluster:
        directory, pids = cluster.directory, [each.pid for each in cluster._processes.values()]
        assert all(map(runs, pids))
    assert not directory.exists()
    assert not any(map(runs, pids))
    with pytest.raises(ClusterError, match="does not run"):
        cluster.create_topic()
    cluster.stop()  # again


def test_a_directory_of_the_user_stays_and_is_used_again(tmp_path: Path) -> None:
    with Cluster(directory=tmp_path / "kept") as cluster:
        topic = cluster.create_topic()
        with Producer(cluster.bootstrap) as producer:
            producer.send(topic, b"kept")
    with Cluster(directory=tmp_path / "kept") as cluster:
        assert values(cluster, topic, 1) == [b"kept"]


PROGRAM = """
import os, signal, sys
from ledgermq.testing import Cluster

cluster = Cluster(nodes=3)
cluster.start()
if os.fork() == 0:  # a process of the user's tests that has the same open files
    signal.pause()
print(cluster.directory, *(each.pid for each in cluster._processes.values()), cluster._network._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_process_of_the_tests(number: signal.Signals) -> None:
    test = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with test:
        assert test.stdout is not None
        directory, *numbers = test.stdout.readline().split()
        pids = [int(each) for each in numbers]
        assert len(pids) == 4
        assert all(map(runs, pids))
        test.send_signal(number)
        test.wait(20)
        blocking_eventually(lambda: not any(map(runs, pids)), "all nodes have ended")
        blocking_eventually(lambda: not Path(directory).exists(), "the directory is removed")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(test.pid, signal.SIGKILL)  # the process that the program forked, if it still runs


def test_nodes_end_with_the_process_that_forked_them() -> None:
    cluster = Cluster()
    with cluster:
        directory, pid = cluster.directory, cluster._processes[1].pid
        os.kill(forking_process()._process.pid, signal.SIGKILL)
        blocking_eventually(lambda: not runs(pid), "the node has ended")
    assert not directory.exists()
    with Cluster() as other:  # with a new forking process
        assert other.leader() == 1


def test_a_suite_with_many_open_files_can_have_a_cluster() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with ExitStack() as files:
            while files.enter_context(open(os.devnull)).fileno() < 1100:
                pass
            with Cluster(nodes=3) as cluster:
                cluster.restart(cluster.kill_leader())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("nodes", [0, 2, 11])
def test_a_strange_number_of_nodes_is_refused(nodes: int) -> None:
    with pytest.raises(ClusterError, match=f"not {nodes}"):
        Cluster(nodes)


def test_a_wrong_setting_is_named_and_nothing_is_left() -> None:
    cluster = Cluster(settings={"tick_mss": 20})
    with pytest.raises(ClusterError, match="did you mean `tick_ms`"):
        cluster.start()
    with pytest.raises(ClusterError, match="does not run"):
        _ = cluster.directory


def test_variables_of_the_environment_do_not_reach_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERMQ_NODE", "7")
    program = "from ledgermq.testing import Cluster\nwith Cluster() as cluster: print(cluster.leader())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")
