"""Fixtures and settings that all tests share."""

from __future__ import annotations

import logging
import os
import sys
from importlib.util import find_spec

import hypothesis
import pytest

IN_CI = os.environ.get("CI") == "true"

if find_spec("docker") is None and not IN_CI:  # `make test` installs it
    collect_ignore = [
        "tests/chaos/live/test_containers.py",
        "tests/cluster/local/test_compose.py",
        "tests/cluster/local/test_docker_cluster.py",
        "tests/cluster/local/test_testcontainers.py",
    ]


@pytest.fixture(scope="session")
def node_image() -> str:
    """Return the name of the node image, after a check that a Docker engine of this machine has the image. If there
    is no engine or no image, the test is skipped; in CI it fails, because CI builds the image."""
    from cluster.local.engine import IMAGE, EngineError, connect, need_image  # here, since it may not be installed

    try:
        client = connect()
        need_image(client, IMAGE)
        client.close()
    except EngineError as error:
        if IN_CI:
            pytest.fail(f"CI must have an engine and the image: {error}")
        pytest.skip(str(error))
    return IMAGE


pytest_plugins = ["tests.quick", "tests.workers"]

# Python keeps compiled modules here and in what tests start, even if the user's shell says PYTHONDONTWRITEBYTECODE.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A deadline would measure what else the machine does: many of these tests write files.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


def _is_no_late_event_of_grpc(record: logging.LogRecord) -> bool:
    """Return False for the error that asyncio logs if gRPC has an event for the closed event loop of an earlier test.
    No code of ours can prevent it, and it may arrive during any test."""
    return not ("PollerCompletionQueue" in record.getMessage() and "loop is closed" in str(record.exc_info))


logging.getLogger("asyncio").addFilter(_is_no_late_event_of_grpc)
