"""What the doctor knows about a cluster: the answers of its nodes.

A question that fails does not end the observation. The doctor says which questions had no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from cluster.cli.doctor.certificates import CertificateState, certificate_of
from cluster.cli.doctor.metrics import NodeFigures, figures_of
from cluster.cli.options import REQUEST_TIMEOUT_MS
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.consumer_group_records import ConsumerGroupSummary
from ledger.client.connection.security import NONE, Security, security_of
from ledger.client.records import LogHold, Members, NodeStatus
from ledger.errors import LedgerError, UnavailableError, told_of
from ledger.local_socket import is_socket
from ledger.validation.sources.access import HttpAccess
from ledger.validation.sources.errors import SourceError
from ledger.validation.sources.node_urls import http_url

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Observation:
    """The answers of a cluster. `unavailable` says why no node answered, and is empty if a node did. `unanswered` has a
    sentence for each question without an answer. `members` has the members of each shard that has a leader."""

    bootstrap: str
    security: Security = NONE
    unavailable: str = ""
    nodes: tuple[NodeStatus, ...] = ()
    members: dict[int, Members] = field(default_factory=dict)
    groups: tuple[ConsumerGroupSummary, ...] = ()
    holds: tuple[LogHold, ...] = ()
    figures: dict[int, NodeFigures] = field(default_factory=dict)
    certificates: dict[int, CertificateState] = field(default_factory=dict)
    unanswered: tuple[str, ...] = ()


async def observe(bootstrap: str) -> Observation:
    """Ask all nodes of the cluster, and return their answers. Raises LedgerError if the settings of this client are
    wrong or if the cluster refuses the client."""
    security = security_of({}, bootstrap.split(","))
    try:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await _ask(admin, bootstrap, security)
    except UnavailableError as error:
        return Observation(bootstrap, security, unavailable=told_of(error))


async def _ask(admin: AsyncAdmin, bootstrap: str, security: Security) -> Observation:
    unanswered: list[str] = []

    async def answered(question: str, answer: Awaitable[T]) -> T | None:
        try:
            return await answer
        except (LedgerError, SourceError) as error:
            unanswered.append(f"{question}: {error}")
            return None

    nodes = tuple(await admin.cluster())
    if is_socket(bootstrap):
        nodes = tuple(node for node in nodes if node.reachable)
    running = [node for node in nodes if node.reachable]
    led = sorted({shard.shard for node in running for shard in node.shards if shard.role == "leader"})
    members = {shard: await answered(f"members of shard {shard}", admin.members(shard=shard)) for shard in led}
    groups = await answered("consumer groups", admin.list_consumer_groups()) if led else None
    holds = [await answered(f"holds of shard {shard}", admin.log_holds(shard=shard)) for shard in led]
    figures = await asyncio.gather(
        *(answered(f"metrics of node {node.node}", _figures(node, security)) for node in running)
    )
    certificates = await asyncio.gather(*(_certificate(node, security) for node in running))
    return Observation(
        bootstrap,
        security,
        nodes=nodes,
        members={shard: found for shard, found in members.items() if found is not None},
        groups=tuple(groups or ()),
        holds=tuple(hold for held in holds for hold in held or ()),
        figures={node.node: each for node, each in zip(running, figures, strict=True) if each is not None},
        certificates={node.node: each for node, each in zip(running, certificates, strict=True) if each is not None},
        unanswered=tuple(unanswered),
    )


async def _figures(node: NodeStatus, security: Security) -> NodeFigures | None:
    url = http_url(node, tls=security.tls)
    if not url:
        return None
    text = await asyncio.to_thread(HttpAccess().file, f"{url}/metrics")
    return None if text is None else figures_of(text.decode(errors="replace"))


async def _certificate(node: NodeStatus, security: Security) -> CertificateState | None:
    if not security.tls or is_socket(node.address):
        return None
    return await asyncio.to_thread(certificate_of, node.address, security)
