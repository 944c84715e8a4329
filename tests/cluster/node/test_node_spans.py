"""A node imports OpenTelemetry only with the setting `otel_endpoint`, and clients only with the setting `tracing`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.node.settings import NodeSettings, SettingsError

OFF = """
import asyncio, sys
from pathlib import Path
from cluster.node.node import Node, make_spans
from cluster.node.settings import NodeSettings
from ledgermq import AsyncProducer, AsyncPushConsumer, AsyncSharedConsumer, Producer

settings = NodeSettings(node=1, data=Path("/nowhere"), peers={1: "127.0.0.1:9871"})
assert make_spans(settings) is None
AsyncProducer("127.0.0.1:9871")
AsyncPushConsumer("t", group="g", listener=print, bootstrap_servers="127.0.0.1:9871")
AsyncSharedConsumer("t", group="g", bootstrap_servers="127.0.0.1:9871")
print(sorted({name.partition(".")[0] for name in sys.modules if name.startswith("opentelemetry")}))
"""

WITHOUT = """
import sys
from pathlib import Path
sys.modules["opentelemetry"] = None
from ledgermq import AsyncProducer
from ledgermq.errors import InvalidArgumentError
try:
    AsyncProducer("127.0.0.1:9871", tracing=True)
except InvalidArgumentError as error:
    print(error)
"""


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.mark.real
def test_nothing_is_imported_while_tracing_is_off() -> None:
    assert printed(OFF) == "[]"


@pytest.mark.real
def test_the_error_names_the_extra() -> None:
    assert printed(WITHOUT).endswith("pip install 'ledgermq[otel]'.")


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4317", "http://collector", "ftp://a:1", "http://a:1/path"])
def test_the_endpoint_is_checked(endpoint: str) -> None:
    with pytest.raises((SettingsError, ValueError), match="collector"):
        NodeSettings(node=1, data=Path("/d"), peers={1: "127.0.0.1:9871"}, otel_endpoint=endpoint)
