"""Starts a Spark session or context: on this machine, on a cluster, or as spark-submit has prepared it.

    with spark_session("counts", master="local[2]") as spark: ...                 stopped at the end of the block
    spark = start_session("tests", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    with spark_context("ledgermq validate", master="local[2]") as sc: ...         RDDs only, and a faster start

This module makes Spark work from any virtual environment. This module sets the Python program of Spark's workers, the
loopback interface for local sessions, and the path of ledgermq's own modules, of which remote executors receive a
copy. If a master is named, remote executors also receive the driver's token (LEDGERMQ_TOKEN) and authorities, but no
password. The module also makes workers import the installed pyspark. If pyspark or Java is missing, the error says in
one sentence what to install.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

from ledger.errors import InvalidArgumentError, LedgerError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
_LOOPBACK = "127.0.0.1"
_LOCAL: Mapping[str, str] = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    # Over TCP each task of a Python worker waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "ledger.spark.worker_daemon",
}
_ANYWHERE: Mapping[str, str] = {
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
# What executors on other hosts get of the driver's variables. A password stays with the driver.
_HANDED_ON = ("LEDGERMQ_CA", "LEDGERMQ_TLS", "LEDGERMQ_TOKEN")
# Our packages that executors need.
_PACKAGES = ("store", "raft", "ledger", "pyspark_ledgermq", "pyspark_ledgermq_log")


class SparkMissingError(LedgerError):
    """pyspark or a suitable Java is not installed. The message says what to install."""


class SparkFailedError(LedgerError):
    """Spark failed: the master cannot be reached, there are no executors, or a task failed in all its attempts."""


def start_session(name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session called `name` and return it. If the process has a session already, return the existing session.

        name    the name of the Spark application
        master  `local[2]`, `spark://host:7077`, `yarn`, `k8s://...`; default: as spark-submit or the environment says
        conf    Spark settings, which have precedence over the settings of this module

    The caller calls `stop()` on the session. Raises SparkMissingError.
    """
    require_spark()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in _prepared(name, master, conf).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not _is_local(master):
        _send_sources(spark.sparkContext)
        _register(spark)
    return spark


def start_context(name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkContext:
    """Start Spark like `start_session`, but without a session: a session needs two more seconds to start, and a
    program that uses only RDDs does not need one. If the process has a context already, return the existing context.

    Raises SparkMissingError.
    """
    require_spark()
    from pyspark import SparkConf, SparkContext

    sc = SparkContext.getOrCreate(SparkConf().setAll([*_prepared(name, master, conf).items()]))
    if not _is_local(master):
        _send_sources(sc)
    return sc


@contextmanager
def spark_session(
    name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start a session like `start_session`, and stop it at the end of the `with` block, unless it was running
    before the block."""
    require_spark()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    spark = start_session(name, master=master, conf=conf)
    try:
        yield spark
    finally:
        if running is None:
            _stop(spark.sparkContext, spark.stop)


@contextmanager
def spark_context(
    name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkContext]:
    """Start a context like `start_context`, and stop it at the end of the `with` block, unless it was running before
    the block."""
    require_spark()
    from pyspark import SparkContext

    running = SparkContext._active_spark_context
    sc = start_context(name, master=master, conf=conf)
    try:
        yield sc
    finally:
        if running is None:
            _stop(sc, sc.stop)


def _stop(sc: SparkContext, stop: Callable[[], None]) -> None:
    """Call `stop`, which stops the context, without waiting for the thread that receives accumulators. That thread
    looks only once a second whether it is to end."""
    server = getattr(sc, "_accumulatorServer", None)
    sc._accumulatorServer = None  # type: ignore[assignment]  # stop() waits for the thread if this is set
    stop()
    if server is not None:
        server.server_shutdown = True
        if isinstance(server.server_address, str):  # of a Unix socket, which a process that ends now leaves behind
            Path(server.server_address).unlink(missing_ok=True)
        threading.Thread(target=server.shutdown, name="spark-accumulators", daemon=True).start()


@contextmanager
def failures_in_a_line(master: str | None) -> Iterator[None]:
    """Turn an error of Spark, which often has a page of text, into SparkFailedError with one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        where = f"Spark at {master}" if master is not None else "Spark"
        raise SparkFailedError(f"{where} failed: {_last_reason(str(error))} (see Spark's log for details)") from error


def _last_reason(text: str) -> str:
    """Return the last exception that a trace of Java and Python names, which is the innermost exception."""
    named = re.findall(r"^(?:: )?([\w.]+(?:Error|Exception): .+)$", text, re.MULTILINE)
    return str(named[-1]) if named else text.partition("\n")[0]


def require_spark() -> None:
    """Raise SparkMissingError if pyspark cannot be imported, or Java is missing or too old."""
    try:
        import pyspark.sql  # noqa: F401
    except ImportError as error:
        raise SparkMissingError(
            f"Spark is not installed ({error}): run pip install 'ledgermq[spark]', and install Java {OLDEST_JAVA} or "
            "newer."
        ) from error
    if "SPARK_CONNECT_MODE_ENABLED" not in os.environ:
        _require_java()


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    remedy = f"install Java {OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jre-headless)"
    if java is None:
        raise SparkMissingError(f"Spark needs Java, and Java was not found: {remedy}, or set JAVA_HOME.")
    try:
        told = _told_version(java)
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkMissingError(f"Spark needs Java, and {java} does not run ({error}): {remedy}.") from error
    found = re.search(r'version "(?:1\.)?(\d+)', told)  # Java 8 reports its version as 1.8
    if found is not None and int(found[1]) < OLDEST_JAVA:
        raise SparkMissingError(f"{java} is Java {found[1]}, which is too old: {remedy}, or set JAVA_HOME to one.")


@cache
def _told_version(java: str) -> str:
    """Return what Java says about its version. Java takes 0.1 s for it, and is asked by each part that needs Spark."""
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr


def _is_local(master: str | None) -> bool:
    return master is not None and master.startswith("local")


def spark_settings(given: Sequence[str]) -> dict[str, str]:
    """Return Spark settings that a user gave as `KEY=VALUE`. Raises InvalidArgumentError."""
    settings: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key.startswith("spark.") or key != key.strip():
            raise InvalidArgumentError(
                f'The Spark setting is "{each}": write it as spark.KEY=VALUE, such as spark.executor.memory=2g.'
            )
        settings[key] = value
    return settings


def _prepared(name: str, master: str | None, conf: Mapping[str, str] | None) -> dict[str, str]:
    """Set up the environment, and return the settings with which Spark is to start."""
    is_local = _is_local(master)
    _set_up_environment(is_local=is_local)
    where: dict[str, str] = {}
    if master is not None:
        where = {"spark.master": master, **(_local_settings() if is_local else _handed_on(conf or {}))}
    return {"spark.app.name": name, **_ANYWHERE, **where, **(conf or {})}


def _handed_on(conf: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings by which executors on other hosts get this process's token and authorities, if it has
    them. spark-submit has its own settings, so this function is called only if this process names the master.

    A variable that comes from a secret of Kubernetes is left out, because pods' descriptions show other variables."""
    names = [name for name in _HANDED_ON if f"spark.kubernetes.executor.secretKeyRef.{name}" not in conf]
    return {f"spark.executorEnv.{name}": os.environ[name] for name in names if os.environ.get(name)}


def _set_up_environment(*, is_local: bool) -> None:
    """Set the environment variables that Spark reads before the session starts."""
    if is_local:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
        if "SPARK_HOME" not in os.environ:
            os.environ["SPARK_HOME"] = str(_home_without_zip())
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _home_without_zip() -> Path:
    """Return a copy of Spark's home, made of links, without the zip file of pyspark. The copy is removed at exit.

    Without this copy, workers would import pyspark from the zip file. From a zip file each worker compiles all modules
    again, which takes a second of processor time.
    """
    import pyspark

    home = Path(tempfile.mkdtemp(prefix="ledgermq-spark-"))
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.name != "python":
            (home / each.name).symlink_to(each)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def _send_sources(sc: SparkContext) -> None:
    """Send our sources to remote executors, so that they run the same code as this process.

    If the user has sent files with `--py-files`, do nothing.
    """
    root = Path(__file__).resolve().parents[2]
    if not root.is_dir() or sc.getConf().get("spark.submit.pyFiles", ""):
        return
    path = Path(tempfile.mkdtemp(prefix="ledgermq-sources-"), "ledgermq.zip")
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            for source in sorted((root / package).rglob("*.py")):
                archive.write(source, source.relative_to(root))
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    sc.addPyFile(str(path))


def _register(spark: SparkSession) -> None:
    """Register the formats with this session.

    Spark finds the formats by itself, too. But tasks of a format that Spark has found do not get the files that were
    sent to the executors, so these tasks fail if ledgermq is not installed on the host of the executor.
    """
    from ledger.spark.source import default_source, log_source

    spark.dataSource.register(default_source.DefaultSource)
    spark.dataSource.register(log_source.DefaultSource)


def _local_settings() -> Mapping[str, str]:
    """Return the settings of a local session. With these settings Spark's workers find our sources also in a
    checkout without installation."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**_LOCAL, "spark.executorEnv.PYTHONPATH": path}
