"""Runs a real Prometheus of Debian with the rules of deploy/prometheus, for a test.

Rules wait for minutes, and a test must not. So a test runs a copy of the rules in which every duration is shorter by
one factor (`scaled`): `for`, the ranges of expressions such as `[5m]`, `offset`, the interval of evaluations, and the
time for which Prometheus looks back for a sample. Scrapes are half as frequent as the factor says, so that a node on a
busy machine has time to answer. Nothing else of the copy differs: names, thresholds and expressions are those of the
files.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import pytest
import yaml

from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "deploy/prometheus"
RULE_FILES = ("recording_rules.yml", "alerts.yml")

# 15 minutes become 15 seconds.
FACTOR = 60
SCRAPES_FACTOR = 30
_LOOK_BACK_S = 300.0
# Five minutes of the rules.
_QUIET_S = 300.0 / FACTOR
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)(ms|[smhd])")
_IN_AN_EXPRESSION = re.compile(r"(\[|\boffset )(\d+(?:ms|[smhd]))\b")


def needs_prometheus() -> None:
    """Skip the test if Prometheus is not installed here. In CI it must be: .ci/run installs it."""
    missing = [program for program in ("prometheus", "promtool") if shutil.which(program) is None]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"CI must have {' and '.join(missing)}")
    if missing:
        pytest.skip(f"{' and '.join(missing)} of Debian's package prometheus: run `scripts/prometheus`")


def rule_groups(file: str) -> list[dict[str, Any]]:
    """Return the groups of a rule file."""
    groups: list[dict[str, Any]] = yaml.safe_load((RULES / file).read_text(encoding="utf-8"))["groups"]
    return groups


def alerts() -> dict[str, dict[str, Any]]:
    """Return all alerts by name."""
    return {rule["alert"]: rule for group in rule_groups("alerts.yml") for rule in group["rules"]}


def scaled(groups: Sequence[Mapping[str, Any]], factor: int) -> list[dict[str, Any]]:
    """Return a copy of these groups in which every duration is shorter by this factor."""
    return [{**group, "rules": [_scaled_rule(rule, factor) for rule in group["rules"]]} for group in groups]


def _scaled_rule(rule: Mapping[str, Any], factor: int) -> dict[str, Any]:
    expression = _IN_AN_EXPRESSION.sub(lambda found: found[1] + shorter(found[2], factor), rule["expr"])
    return {**rule, "expr": expression, **({"for": shorter(rule["for"], factor)} if "for" in rule else {})}


def shorter(duration: str, factor: int) -> str:
    found = _DURATION.fullmatch(duration)
    assert found is not None, f"no duration with one unit: {duration!r}"
    milliseconds, rest = divmod(int(found[1]) * _UNITS_MS[found[2]], factor)
    assert not rest, f"{duration} is no multiple of {factor} ms"
    return f"{milliseconds}ms"


class Prometheus:
    """A Prometheus that runs during an `async with` block. `jobs` are the HTTP addresses of the nodes of each
    cluster."""

    def __init__(
        self,
        directory: Path,
        jobs: Mapping[str, Sequence[str]],
        security: Mapping[str, Any] | None = None,
        *,
        times: int = 1,
    ) -> None:
        """`security` are further settings of each job. All durations are this many times shorter than those of other
        tests."""
        self._directory = directory
        self._jobs = jobs
        self._security = security or {}
        self._factor = FACTOR * times
        self._scrapes_factor = SCRAPES_FACTOR * times
        self._address = f"127.0.0.1:{free_base_port(1)}"
        self._process: subprocess.Popen[bytes] | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Prometheus:
        self._write()
        self._process = self._started()
        self._session = aiohttp.ClientSession(f"http://{self._address}")
        await eventually(self._answers, "Prometheus answers")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._session is not None
        await self._session.close()
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an instant query. Raises AssertionError if Prometheus refuses the expression."""
        found: list[dict[str, Any]] = (await self.get("/api/v1/query", query=expression))["result"]
        return found

    async def get(self, path: str, **parameters: str) -> Any:
        """Return the field `data` of an answer of Prometheus's API."""
        assert self._session is not None
        async with self._session.get(path, params=parameters) as response:
            answer = await response.json()
        assert answer["status"] == "success", f"{parameters}: {answer.get('error')}"
        return answer["data"]

    async def is_quiet(self) -> None:
        """Check that no alert fires in a time in which most alerts can."""
        await asyncio.sleep(_QUIET_S)
        fired = await self.query('last_over_time(ALERTS{alertstate="firing"}[1h])')
        assert [each["metric"] for each in fired] == []

    async def has_fired(self, alert: str) -> bool:
        return bool(await self.query(f'last_over_time(ALERTS{{alertstate="firing",alertname="{alert}"}}[1h])'))

    async def fires(self, alert: str, *, deadline_s: float = 90.0, **labels: str) -> None:
        """Wait until the alert fires, or return at once if it has fired since the start."""
        wanted = ",".join(f'{label}="{value}"' for label, value in {"alertname": alert, **labels}.items())
        expression = f'last_over_time(ALERTS{{alertstate="firing",{wanted}}}[1h])'

        async def fired() -> bool:
            return bool(await self.query(expression))

        await eventually(fired, f"{alert} fires ({labels})", deadline_s=deadline_s)

    def _started(self) -> subprocess.Popen[bytes]:
        with open(self._directory / "prometheus.log", "wb") as log:
            return subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self._directory / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._directory / 'data'}",
                    f"--web.listen-address={self._address}",
                    f"--query.lookback-delta={_LOOK_BACK_S / self._factor * 1_000:.0f}ms",
                ],
                stdout=log,
                stderr=log,
            )

    def _write(self) -> None:
        config = yaml.safe_load((RULES / "prometheus.yml").read_text(encoding="utf-8"))
        intervals = config["global"]
        intervals["scrape_interval"] = shorter(intervals["scrape_interval"], self._scrapes_factor)
        intervals["evaluation_interval"] = shorter(intervals["evaluation_interval"], self._factor)
        job = config["scrape_configs"][0]
        config["scrape_configs"] = [
            {**job, **self._security, "job_name": name, "static_configs": [{"targets": [*addresses]}]}
            for name, addresses in self._jobs.items()
        ]
        self._directory.mkdir(exist_ok=True)
        (self._directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        for file in RULE_FILES:
            text = yaml.safe_dump({"groups": scaled(rule_groups(file), self._factor)}, width=10_000)
            (self._directory / file).write_text(text)

    async def _answers(self) -> bool:
        assert self._session is not None
        try:
            async with self._session.get("/-/ready") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False
