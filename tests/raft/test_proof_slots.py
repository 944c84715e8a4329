"""Tests of the bound on proofs in progress."""

from __future__ import annotations

import asyncio

import pytest

from raft.transport.proof_slots import ProofSlots, SlotsTakenError, host_of
from tests.cluster.waiter import eventually

STRANGER, NODE = "ipv4:10.0.0.9:1000", "ipv4:10.0.0.2:1000"


async def never_finished(slots: ProofSlots, peer: str) -> str:
    try:
        async with slots.taken(peer, 60):
            await asyncio.get_running_loop().create_future()
    except TimeoutError:
        return "ended"
    except SlotsTakenError:
        return "refused"
    return ""


async def finished(slots: ProofSlots, peer: str) -> None:
    async with slots.taken(peer, 60):
        await asyncio.sleep(0)


async def begun(slots: ProofSlots, peer: str, count: int) -> list[asyncio.Task[str]]:
    tasks = [asyncio.create_task(never_finished(slots, peer)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def end(tasks: list[asyncio.Task[str]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("peer", [NODE, STRANGER])
async def test_proofs_that_never_finish_keep_out_nobody(peer: str) -> None:
    """Before, 256 of them refused every node of the cluster."""
    slots = ProofSlots(total=8, of_a_host=8)
    tasks = await begun(slots, STRANGER, 20)
    assert len(slots) == 8
    await finished(slots, peer)
    assert await tasks[0] == "ended"
    await end(tasks)
    assert len(slots) == 0


async def test_a_host_loses_its_own_proofs_first() -> None:
    slots = ProofSlots(total=8, of_a_host=4)
    of_node = await begun(slots, NODE, 2)
    of_stranger = await begun(slots, STRANGER, 20)
    assert len(slots) == 6
    await asyncio.wait(of_stranger[:16])
    assert not any(task.done() for task in of_node)
    await end([*of_node, *of_stranger])


async def test_a_wrong_proof_holds_its_slot_whether_or_not_the_caller_waits() -> None:
    """Before, a caller that ended its calls at once guessed passwords without a limit."""
    slots = ProofSlots(total=8, of_a_host=4)
    for _ in range(4):
        slots.hold(STRANGER, 0.01)  # seconds
    with pytest.raises(SlotsTakenError):
        await finished(slots, STRANGER)
    await finished(slots, NODE)

    async def are_free() -> bool:
        return len(slots) == 0

    await eventually(are_free, "the slots are free again")
    await finished(slots, STRANGER)


def test_a_host_is_an_ipv4_address_or_an_ipv6_network() -> None:
    hosts = [
        host_of(f"ipv6:%5B{address}%5D:40000") for address in ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1")
    ]
    assert hosts == ["2001:db8::/64", "2001:db8::/64", "2001:db8:0:1::/64"]
    mapped = [host_of(f"ipv6:%5B::ffff:10.0.0.{last}%5D:40000") for last in (1, 2)]
    assert mapped[0] != mapped[1]
    assert host_of("ipv4:10.0.0.1:40000") == host_of("ipv4:10.0.0.1:40001") != host_of("ipv4:10.0.0.2:40000")
    assert host_of("unix:") == "unix"
