"""A Spark session: on this machine, on a cluster, or the one that spark-submit has prepared.

    with spark_session("ledgermq validate", master="local[2]") as spark: ...      ended with the block
    spark = start_session("tests", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})

Whatever Spark must be told so that it works from any virtual environment is told here and nowhere else: which Python
its workers run, that a local one keeps to the loopback interface, where our own sources lie (executors elsewhere are
sent them), and that workers take the pyspark that is installed. And what is missing (pyspark, Java) is told in one
sentence with what to install, before Spark tells it in fifty lines.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

from ledger.errors import LedgerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
_LOOPBACK = "127.0.0.1"
_LOCAL: Mapping[str, str] = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    # By TCP each task of a Python worker waits 40 ms for an acknowledgement that the other side delays.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "ledger.spark.worker_daemon",
}
_ANYWHERE: Mapping[str, str] = {
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
_PACKAGES = ("store", "raft", "ledger", "pyspark_ledgermq", "pyspark_ledgermq_log")
"""Of ours, what executors need."""


class SparkMissingError(LedgerError):
    """pyspark, or a Java that it runs on, is not installed; the message says what to install."""


class SparkFailedError(LedgerError):
    """Spark could not do its work: no master, no executors, or a task that failed each time."""


def start_session(name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session called `name`; whoever starts it calls `stop()`. There is one to a process: where one runs already, it
    is that one.

    `master`: `local[2]`, `spark://host:7077`, `yarn`, `k8s://...`; None: as spark-submit or the environment says.
    `conf`: goes before what is set here. Raises SparkMissingError."""
    require_spark()
    from pyspark.sql import SparkSession

    is_local = master is not None and master.startswith("local")
    _set_up_environment(is_local=is_local)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    settings = {**_ANYWHERE, **(_local_settings() if is_local else {}), **(conf or {})}
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not is_local:
        _send_sources(spark)
    return spark


@contextmanager
def spark_session(
    name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """`start_session`, stopped with the block; unless it was there before, and so is somebody else's."""
    require_spark()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    spark = start_session(name, master=master, conf=conf)
    try:
        yield spark
    finally:
        if running is None:
            spark.stop()


@contextmanager
def failures_in_a_line(master: str | None) -> Iterator[None]:
    """What Spark tells in a page, as SparkFailedError in a line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        where = f"Spark at {master}" if master is not None else "Spark"
        raise SparkFailedError(f"{where} failed: {_last_reason(str(error))} (its own log says more)") from error


def _last_reason(text: str) -> str:
    """Of the exceptions that a trace of Java and Python names, the innermost: the last one."""
    named = re.findall(r"^(?:: )?([\w.]+(?:Error|Exception): .+)$", text, re.MULTILINE)
    return str(named[-1]) if named else text.partition("\n")[0]


def require_spark() -> None:
    """Raises SparkMissingError unless pyspark can be imported and a Java that is new enough is there."""
    try:
        import pyspark.sql  # noqa: F401
    except ImportError as error:
        raise SparkMissingError(
            f"Spark is not installed ({error}): pip install 'ledgermq[spark]', and Java {OLDEST_JAVA} or newer."
        ) from error
    if "SPARK_CONNECT_MODE_ENABLED" not in os.environ:
        _require_java()


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    remedy = f"install Java {OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jre-headless)"
    if java is None:
        raise SparkMissingError(f"Spark needs Java, and there is none: {remedy}, or set JAVA_HOME.")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkMissingError(f"Spark needs Java, and {java} does not run ({error}): {remedy}.") from error
    found = re.search(r'version "(?:1\.)?(\d+)', told)  # 8 calls itself 1.8
    if found is not None and int(found[1]) < OLDEST_JAVA:
        raise SparkMissingError(f"{java} is Java {found[1]}: {remedy}, or set JAVA_HOME to one.")


def _set_up_environment(*, is_local: bool) -> None:
    """What Spark reads from the environment before there is a session."""
    if is_local:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
        if "SPARK_HOME" not in os.environ:
            os.environ["SPARK_HOME"] = str(_home_without_zip())
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _home_without_zip() -> Path:
    """Spark's home, but for the zip with another copy of pyspark, which workers would put first: from a zip each
    compiles all that it imports, which takes a second of the processor. Removed when this process ends."""
    import pyspark

    home = Path(tempfile.mkdtemp(prefix="ledgermq-spark-"))
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.name != "python":
            (home / each.name).symlink_to(each)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def _send_sources(spark: SparkSession) -> None:
    """Executors elsewhere run what this process runs, whatever is installed there; unless `--py-files` brought it."""
    root = Path(__file__).resolve().parents[2]
    if not root.is_dir() or spark.conf.get("spark.submit.pyFiles", ""):
        return
    path = Path(tempfile.mkdtemp(prefix="ledgermq-sources-"), "ledgermq.zip")
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            for source in sorted((root / package).rglob("*.py")):
                archive.write(source, source.relative_to(root))
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    spark.sparkContext.addPyFile(str(path))


def _local_settings() -> Mapping[str, str]:
    """Workers find our sources also where they are not installed, but run from a checkout."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**_LOCAL, "spark.executorEnv.PYTHONPATH": path}
