"""Reads metrics and readiness from a node's HTTP port."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.waiter import eventually


@dataclass(frozen=True, slots=True)
class Scrape:
    """All samples of one response of /metrics."""

    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]
    kinds: dict[str, str]

    def __getitem__(self, name: str) -> float:
        """Return the sum of the samples with this name, over all labels."""
        return sum(value for (each, _), value in self.samples.items() if each == name)

    def of(self, name: str, **labels: str) -> float:
        return self.samples[name, tuple(sorted(labels.items()))]


async def scrape(address: str) -> Scrape:
    text = (await get(address, "/metrics"))[1]
    families = list(text_string_to_metric_families(text))
    return Scrape(
        {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        },
        {family.name: family.type for family in families},
    )


async def get(address: str, path: str) -> tuple[int, str]:
    """Return status and body of a GET request."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as response:
        return response.status, await response.text()


async def not_ready(address: str) -> str:
    """Return the reason of /readyz why the node is not ready, or "" if the node is ready."""
    status, body = await get(address, "/readyz")
    assert status in (200, 503)
    return body if status == 503 else ""


async def reason_not_ready(address: str, words: str) -> str:
    """Wait until the reason of /readyz contains `words`, and return the reason. For a moment there may be another
    reason, for example that no leader is known."""

    async def reason() -> str:
        found = await not_ready(address)
        return found if words in found else ""

    return await eventually(reason, f"the node at {address} is not ready: {words}")


async def is_ready(address: str) -> bool:
    """Return whether a node answers and is ready."""
    try:
        return not await not_ready(address)
    except aiohttp.ClientError:
        return False
