"""The pytest plugin of ledgermq. pytest loads it wherever ledgermq is installed, so it imports ledgermq only when a
test uses one of its fixtures.

    ledgermq_cluster   a running `ledgermq.testing.Cluster`; its scope and its nodes are options of the ini file
    ledgermq_topic     the name of a new topic of `ledgermq_cluster`; @pytest.mark.ledgermq_topic(queues=4)

If a test fails, the report shows the end of the nodes' logs. docs/TESTING.md is the guide.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ledgermq.testing import Cluster

SCOPES = ("session", "package", "module", "class", "function")
_LOG_LINES = 12
# Of the test in the name of a topic. Users put prefixes before it; a name has at most 63 characters.
_NAME_LENGTH = 30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("ledgermq_nodes", "The number of nodes of `ledgermq_cluster`: 1, 3, 5, 7 or 9.", default="1")
    parser.addini("ledgermq_scope", f"The scope of `ledgermq_cluster`: {', '.join(SCOPES)}.", default="session")
    parser.addini(
        "ledgermq_settings",
        "Settings of the nodes of `ledgermq_cluster`, each on a line of the form NAME = JSON VALUE.",
        type="linelist",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ledgermq_topic(queues=1): how many queues the fixture `ledgermq_topic` makes.")


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    scope = config.getini("ledgermq_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"ledgermq_scope is {scope!r}: write one of {', '.join(SCOPES)}")
    return scope


@pytest.fixture(scope=_scope)
def ledgermq_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster, of type `ledgermq.testing.Cluster`. Its nodes are real processes. After each test, killed
    nodes are restarted, paused nodes are resumed, and partitions are healed."""
    import ledgermq.testing  # first, because it says so if another package hides one of ledgermq
    from cluster.testing.fixtures import cluster_for_tests

    settings = dict(map(_setting, request.config.getini("ledgermq_settings")))
    yield from cluster_for_tests(ledgermq.testing.Cluster(_number(request.config), settings=settings), request.scope)


@pytest.fixture
def ledgermq_topic(ledgermq_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """The name of a new topic, which begins with the name of the test."""
    from uuid import uuid4

    marker = request.node.get_closest_marker("ledgermq_topic")
    queues = marker.kwargs.get("queues", 1) if marker is not None else 1
    name = re.sub(r"[^A-Za-z0-9_-]", "_", request.node.name)[:_NAME_LENGTH]
    return ledgermq_cluster.create_topic(f"{name}-{uuid4().hex[:8]}", queues=queues)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of the nodes' logs to the report of a test that failed."""
    report = yield
    if report.failed and (fixtures := _fixtures()) is not None:
        for cluster in fixtures.running_clusters():
            report.sections += _log_sections(cluster)
    return report


def _log_sections(cluster: Cluster) -> list[tuple[str, str]]:
    """Return titles and ends of the nodes' logs. An error is told in their place, because a hook that raises ends the
    whole run of pytest."""
    sections = []
    try:
        for node in cluster.nodes:
            lines = cluster.log(node).splitlines()[-_LOG_LINES:]
            sections.append((f"ledgermq node {node} at {cluster.address(node)}", "\n".join(lines)))
    except Exception as error:  # for example: the test has stopped the cluster
        sections.append(("ledgermq cluster", f"The logs cannot be shown: {error}"))
    return sections


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Restore shared clusters before the fixtures of the test are torn down, so that these can use the clusters."""
    failure: Exception | None = None
    if (fixtures := _fixtures()) is not None:
        try:
            fixtures.restore_shared_clusters()
        except Exception as error:  # the fixtures must be torn down all the same
            failure = error
    yield
    if failure is not None:
        raise failure


def _fixtures() -> Any:
    """Return the module that knows the clusters of fixtures, or None if no test has used one."""
    return sys.modules.get("cluster.testing.fixtures")


def _number(config: pytest.Config) -> int:
    text = config.getini("ledgermq_nodes")
    if not text.isdecimal():
        raise pytest.UsageError(f"ledgermq_nodes is {text!r}: write a number of nodes")
    return int(text)


def _setting(line: str) -> tuple[str, Any]:
    name, equals, value = (part.strip() for part in line.partition("="))
    try:
        if not equals:
            raise ValueError
        return name, json.loads(value)
    except ValueError:
        raise pytest.UsageError(
            f"ledgermq_settings has the line {line!r}: write NAME = VALUE, where VALUE is a number, true, false, a "
            "text in double quotes, or a list such as [0.1, 1]"
        ) from None
