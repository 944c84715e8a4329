"""Runs a real MinIO, a store with the interface of S3, for a test. `scripts/minio` builds it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.cluster.ports import free_base_port
from tests.cluster.waiter import until

USER, PASSWORD, BUCKET = "ledgermq-test", "a password of the test", "backups"


def minio_program() -> str:
    """Return the path of the program. Skip the test if it is not there."""
    beside_go = Path.home() / "go" / "bin" / "minio"
    found = shutil.which("minio") or (str(beside_go) if beside_go.exists() else None)
    if found is None:
        pytest.skip("minio: run `scripts/minio`")
    return found


@contextmanager
def running_minio(directory: Path, program: str) -> Iterator[str]:
    """Run the server with an empty bucket, and yield its URL."""
    address = f"127.0.0.1:{free_base_port(1)}"
    (directory / BUCKET).mkdir(parents=True)
    with open(directory.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(
            [program, "server", "--address", address, "--console-address", "127.0.0.1:0", str(directory)],
            env={
                "MINIO_ROOT_USER": USER,
                "MINIO_ROOT_PASSWORD": PASSWORD,
                "HOME": str(directory),
                "MINIO_UPDATE": "off",
            },
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


async def ready(url: str) -> None:
    await until(lambda: _answers(f"{url}/minio/health/ready"), "MinIO is ready")


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
