"""Tests the settings of a local Spark session, and the errors if a session cannot start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from ledger.errors import InvalidArgumentError
from ledger.spark import session
from ledger.spark.session import (
    SparkFailedError,
    SparkMissingError,
    failures_in_a_line,
    require_spark,
    spark_context,
    spark_settings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_local_workers_run_this_python_with_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """Workers do not import pyspark from its zip file, because each worker would compile all imported modules."""
    import pyspark

    def seen(_: int) -> tuple[str, str]:
        import sys

        import pyspark

        return sys.executable, str(pyspark.__file__)

    (found,) = spark.sparkContext.parallelize([0], 1).map(seen).collect()
    assert found[0] == sys.executable
    assert Path(found[1]).resolve() == Path(str(pyspark.__file__)).resolve()


def test_local_workers_pass_over_their_modules_when_they_collect_garbage(spark: SparkSession) -> None:
    def kept(_: int) -> int:
        import gc

        return gc.get_freeze_count()

    found = [spark.sparkContext.parallelize([0], 1).map(kept).collect()[0] for _ in range(20)]
    assert max(found) > 10_000, "some worker has had a task before"


def test_a_local_worker_that_waits_while_the_session_ends_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own worker would sometimes print a traceback."""
    from ledger.spark import worker_daemon

    def cannot_say_why_it_ends(sock: object, authenticated: bool) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(worker_daemon, "_worker_of_spark", cannot_say_why_it_ends)
    with socket() as sock:
        assert worker_daemon.worker(sock, authenticated=True) != 0, "it ends"


CONTEXTS = """
import sys
from ledger.spark.session import spark_context

for count in (2, 3):
    with spark_context("test", master="local[1]", conf={"spark.python.unix.domain.socket.dir": sys.argv[1]}) as sc:
        assert sc.parallelize(range(count), 1).map(lambda number: number).sum() == sum(range(count))
print("both have ended")
"""


def test_a_context_ends_with_its_block_and_leaves_no_socket_behind() -> None:
    """The second block starts a context of its own, although a thread of the first one may still end."""
    with TemporaryDirectory(prefix="sockets-") as directory:  # Spark refuses the long path of `tmp_path`
        command = [sys.executable, "-c", CONTEXTS, directory]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        assert done.stdout == "both have ended\n", done.stderr
        assert "Traceback" not in done.stderr
        assert [*Path(directory).iterdir()] == []


def test_a_context_that_runs_already_is_used_and_stays(spark: SparkSession) -> None:
    with spark_context("test", master="local[1]") as sc:
        assert sc is spark.sparkContext
    assert spark.sparkContext.parallelize([1, 2], 1).sum() == 3


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "JAVA is Java 11, which is too old: install Java 17"),
        ("echo 'java version \"1.8.0_392\"' >&2", "JAVA is Java 8, which is too old: install Java 17 or newer"),
        ("echo 'no such runtime' >&2; exit 3", "JAVA does not run"),
        (None, "Spark needs Java, and Java was not found: install Java 17 or newer"),
    ],
)
@pytest.mark.parametrize("by", ["PATH", "JAVA_HOME"])
def test_a_java_that_is_too_old_or_none_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, told: str, by: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(java.parent) if by == "PATH" else "/nowhere")
    if script is not None:
        java.write_text(f"#!/bin/sh\n{script}\n")
        java.chmod(0o755)
        if by == "JAVA_HOME":
            monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissingError) as refused:
        require_spark()
    said = str(refused.value)
    assert told.replace("JAVA ", f"{java} ") in said
    assert "openjdk-17-jre-headless" in said
    assert "\n" not in said


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SparkMissingError, match="/nowhere/bin/java does not run"):
        require_spark()


def test_a_task_that_fails_is_told_in_one_line(spark: SparkSession) -> None:
    def fail(_: int) -> int:
        raise RuntimeError("the disk is on fire")

    with pytest.raises(SparkFailedError) as failed, failures_in_a_line("local[2]"):
        spark.sparkContext.parallelize([0], 1).map(fail).collect()
    expected = "Spark at local[2] failed: RuntimeError: the disk is on fire (see Spark's log for details)"
    assert str(failed.value) == expected


def test_executors_on_other_hosts_get_the_token_and_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERMQ_CA", "/etc/ca.pem")
    monkeypatch.setenv("LEDGERMQ_TOKEN", "a token")
    monkeypatch.setenv("LEDGERMQ_USER", "admin")
    monkeypatch.setenv("LEDGERMQ_PASSWORD", "secret")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    def handed_on(master: str | None, conf: dict[str, str] | None = None) -> dict[str, str]:
        settings = session._prepared("test", master, conf)
        return {key: value for key, value in settings.items() if "LEDGERMQ" in key}

    both = {"spark.executorEnv.LEDGERMQ_CA": "/etc/ca.pem", "spark.executorEnv.LEDGERMQ_TOKEN": "a token"}
    assert handed_on("spark://10.0.0.1:7077") == handed_on("yarn") == both
    own = handed_on("yarn", {"spark.executorEnv.LEDGERMQ_CA": "/opt/ca.pem"})
    assert own == {**both, "spark.executorEnv.LEDGERMQ_CA": "/opt/ca.pem"}
    assert handed_on(None) == {}, "spark-submit has its own settings"
    secret = {"spark.kubernetes.executor.secretKeyRef.LEDGERMQ_TOKEN": "ledgermq-token:token"}
    kept = {**secret, "spark.executorEnv.LEDGERMQ_CA": "/etc/ca.pem"}
    assert handed_on("k8s://https://10.0.0.1:6443", secret) == kept, "pods' descriptions show other variables"


def test_settings_are_keys_and_values() -> None:
    assert spark_settings(["spark.a=1", "spark.b=x=y", "spark.a=2"]) == {"spark.a": "2", "spark.b": "x=y"}
    for wrong in ("spark.a", "executor.memory=2g", "", "=", "spark.a =1"):
        with pytest.raises(InvalidArgumentError, match=r"write it as spark\.KEY=VALUE"):
            spark_settings([wrong])
