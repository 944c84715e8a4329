"""The page of operations: members, leadership, the placement of replicas, old messages and holds.

    the form of an operation ──> the plan: what would happen ──> the button ──> the result

Each operation is asked of the leaders when its plan is shown, and again when the button is pressed, so a plan that has
become wrong is refused by the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from cluster.console import placement_plans, plans
from cluster.console.clients import ConsoleAdmin
from cluster.console.console import ROOT, Route, Visit, number_in
from cluster.console.plans import Plan
from cluster.replica_moves import reason_of
from ledger.access.rules import CLUSTER, Action
from ledger.client.placement_records import Placement
from ledger.client.records import Members
from ledger.errors import InvalidArgumentError, LedgerError

# How long the leaders may take to answer, in ms.
ANSWER_MS = 5_000
CHANGE_MS = 25_000
# The pause between two questions whether a node has become a member, in seconds.
MEMBERS_PAUSE_S = 0.1
HOUR_MS = 3_600_000
MAX_HOURS = 366 * 24
MAX_NODE = 2**32 - 1

# What may be asked of a visitor who has the right to read the log, but not to administer the cluster.
_HOLDS = ("hold", "release")


async def show(visit: Visit, done: str = "") -> web.StreamResponse:
    visit.require("describe")
    admin = await visit.admin()
    (shards, failed), placement = await asyncio.gather(_members(admin, await admin.shards()), _placement(admin))
    return visit.page(
        "operations.html",
        title="Operations",
        done=done,
        shards=shards,
        failed=failed,
        nodes=plans.members_by_node(shards),
        placement=placement,
        drained=[] if placement is None else [node.node for node in placement.nodes if node.draining],
        reason_of=reason_of,
        holds=await admin.log_holds(timeout_ms=ANSWER_MS) if not failed else [],
        may_administer=visit.visitor.may("administer", CLUSTER),
        may_hold=visit.visitor.may("read-log", CLUSTER),
        now_ms=visit.console.now_ms(),
    )


async def plan(visit: Visit) -> web.StreamResponse:
    """Show what an operation would do."""
    action = _checked_action(visit)
    values = dict(visit.request.query)
    prepared = await PLANS[action](await visit.admin(), values)
    return visit.page("plan.html", title=prepared.title, plan=prepared)


async def carry_out(visit: Visit) -> web.StreamResponse:
    """Carry out an operation whose plan the visitor has read. The page says what was done, also if the cluster does not
    answer the questions of the page afterwards."""
    action = _checked_action(visit)
    done = await ACTIONS[action](await visit.admin(), dict(visit.form))
    try:
        return await show(visit, done)
    except LedgerError as error:
        return visit.page("error.html", title="Operations", done=done, text=f"The page cannot be shown now: {error}")


def _checked_action(visit: Visit) -> str:
    """Return the action of the path. Raises LedgerError if there is no such action, or if the visitor may not ask."""
    action = visit.request.match_info["action"]
    if action not in ACTIONS:
        raise InvalidArgumentError(f"There is no operation {action[:40]!r}.")
    right: Action = "read-log" if action in _HOLDS else "administer"
    visit.require(right)
    return action


async def _members(admin: ConsoleAdmin, numbers: Sequence[int]) -> tuple[dict[int, Members], dict[int, str]]:
    """Return the members of each of these shards, and for shards whose leader does not answer the reason."""
    found = await asyncio.gather(
        *(admin.members(shard=number, timeout_ms=ANSWER_MS) for number in numbers), return_exceptions=True
    )
    shards, failed = {}, {}
    for number, answer in zip(numbers, found, strict=True):
        if isinstance(answer, Members):
            shards[number] = answer
        elif isinstance(answer, LedgerError):
            failed[number] = str(answer)
        else:
            raise answer
    return shards, failed


async def _placement(admin: ConsoleAdmin) -> Placement | None:
    """Return where the replicas are, or None if the leader of shard 0 does not tell it."""
    try:
        async with asyncio.timeout(ANSWER_MS / 1000):
            return await admin.placement()
    except (TimeoutError, LedgerError):
        return None


async def _all_members(admin: ConsoleAdmin) -> dict[int, Members]:
    """Return the members of each shard. Raises LedgerError if a leader does not answer, because a plan without a shard
    would be wrong."""
    shards, failed = await _members(admin, await admin.shards(linearizable=True))
    for number, reason in failed.items():
        raise InvalidArgumentError(f"Shard {number} has no leader that answers: {reason}")
    return shards


# -- plans


async def _plan_transfer(admin: ConsoleAdmin, values: dict[str, str]) -> Plan:
    shard = number_in(values, "shard", most=MAX_NODE)
    members = await admin.members(shard=shard, timeout_ms=ANSWER_MS)
    return plans.transfer_plan(shard, members, number_in(values, "to", most=MAX_NODE))


async def _plan_pin(admin: ConsoleAdmin, values: dict[str, str]) -> Plan:
    shard = number_in(values, "shard", most=MAX_NODE)
    members = await admin.members(shard=shard, timeout_ms=ANSWER_MS)
    return plans.pin_plan(shard, members, number_in(values, "node", most=MAX_NODE))


async def _plan_add(admin: ConsoleAdmin, values: dict[str, str]) -> Plan:
    node, address = _node(values), plans.checked_name(values.get("address", ""), "The address")
    return plans.add_plan(list((await _all_members(admin)).values()), node, address)


async def _plan_promote(admin: ConsoleAdmin, values: dict[str, str]) -> Plan:
    return plans.promote_plan(await _all_members(admin), _node(values))


async def _plan_remove(admin: ConsoleAdmin, values: dict[str, str]) -> Plan:
    return plans.remove_plan(await _all_members(admin), _node(values))


async def _plan_trim(admin: ConsoleAdmin, values: dict[str, str]) -> Plan:
    """The form has `hours`. The plan's button carries the time that they mean, so that the plan stays true."""
    before_ms = number_in(values, "before_ms", least=1)
    cut = await admin.trim_log(before_time_ms=before_ms, dry_run=True, timeout_ms=CHANGE_MS)
    return plans.trim_plan(cut, {"before_ms": str(before_ms)})


async def _plan_hold(_: ConsoleAdmin, values: dict[str, str]) -> Plan:
    name = plans.checked_name(values.get("name", ""), "The name")
    return plans.hold_plan(name, number_in(values, "hours", 24, least=1, most=MAX_HOURS))


async def _plan_release(admin: ConsoleAdmin, values: dict[str, str]) -> Plan:
    holds = await admin.log_holds(timeout_ms=ANSWER_MS)
    return plans.release_plan(plans.checked_name(values.get("name", ""), "The name"), [hold.name for hold in holds])


async def _plan_drain(admin: ConsoleAdmin, values: dict[str, str]) -> Plan:
    return placement_plans.drain_plan(await admin.placement(), _node(values))


async def _plan_end_drain(admin: ConsoleAdmin, values: dict[str, str]) -> Plan:
    return placement_plans.end_drain_plan(await admin.placement(), _node(values))


def _of_placement(plan: Callable[[Placement], Plan]) -> Callable[[ConsoleAdmin, dict[str, str]], Awaitable[Plan]]:
    """Return how a plan is made that depends on the placement only."""

    async def planned(admin: ConsoleAdmin, _: dict[str, str]) -> Plan:
        return plan(await admin.placement())

    return planned


async def trim_from_hours(visit: Visit) -> web.StreamResponse:
    """Turn the hours of the form into a time, and show the plan."""
    hours = visit.number("hours", 72, least=0, most=MAX_HOURS)
    before_ms = visit.console.now_ms() - hours * HOUR_MS
    return web.Response(status=303, headers={"Location": f"{ROOT}/operations/plan/trim?before_ms={max(1, before_ms)}"})


# -- operations


async def _transfer(admin: ConsoleAdmin, values: dict[str, str]) -> str:
    shard = number_in(values, "shard", most=MAX_NODE)
    to = await admin.transfer_leadership(number_in(values, "to", most=MAX_NODE), shard=shard, timeout_ms=CHANGE_MS)
    return f"Node {to} leads shard {shard}."


async def _pin(admin: ConsoleAdmin, values: dict[str, str]) -> str:
    shard, node = number_in(values, "shard", most=MAX_NODE), number_in(values, "node", most=MAX_NODE)
    if not node:
        await admin.unpin_leader(shard=shard, timeout_ms=CHANGE_MS)
        return f"Shard {shard} has no pinned leader."
    await admin.pin_leader(node, shard=shard, timeout_ms=CHANGE_MS)
    return f"Node {node} is pinned as the leader of shard {shard}."


async def _add(admin: ConsoleAdmin, values: dict[str, str]) -> str:
    node, address = _node(values), plans.checked_name(values.get("address", ""), "The address")
    await admin.add_node(node, address, wait=False, timeout_ms=CHANGE_MS)
    await _is_member(admin, node)
    return f"Node {node} is added as a learner. The table shows how much it lacks."


async def _is_member(admin: ConsoleAdmin, node: int) -> None:
    """Wait until the leaders say that the node is a member of their shards, so that the table shows it. After
    `ANSWER_MS` return anyway."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_MS / 1000):
            while not await _all_have(admin, node):  # noqa: ASYNC110 (leaders send no event)
                await asyncio.sleep(MEMBERS_PAUSE_S)


async def _all_have(admin: ConsoleAdmin, node: int) -> bool:
    shards, _ = await _members(admin, await admin.shards())
    return all(members.get(node) for members in shards.values())


async def _promote(admin: ConsoleAdmin, values: dict[str, str]) -> str:
    node = _node(values)
    await admin.promote_node(node, timeout_ms=CHANGE_MS)
    return f"Node {node} votes in all its shards."


async def _remove(admin: ConsoleAdmin, values: dict[str, str]) -> str:
    node = _node(values)
    await admin.remove_node(node, timeout_ms=CHANGE_MS)
    return f"Node {node} is no member any more. Stop it, and empty its data directory before it joins again."


async def _drain(admin: ConsoleAdmin, values: dict[str, str]) -> str:
    node = _node(values)
    await admin.drain_node(node, wait=False)
    return f"Node {node} is being drained. The page of the cluster shows how far it is."


async def _end_drain(admin: ConsoleAdmin, values: dict[str, str]) -> str:
    node = _node(values)
    await admin.stop_draining(node)
    return f"Node {node} is not drained any more."


async def _balance(admin: ConsoleAdmin, _: dict[str, str]) -> str:
    await admin.rebalance()
    return "The replicas are being balanced. The page of the cluster shows how far it is."


async def _end_balance(admin: ConsoleAdmin, _: dict[str, str]) -> str:
    await admin.rebalance(stop=True)
    return "No further move begins for the balance."


async def _pause(admin: ConsoleAdmin, _: dict[str, str]) -> str:
    await admin.pause_placement()
    return "All moves of replicas are paused."


async def _resume(admin: ConsoleAdmin, _: dict[str, str]) -> str:
    await admin.pause_placement(resume=True)
    return "Moves of replicas go on."


async def _trim(admin: ConsoleAdmin, values: dict[str, str]) -> str:
    cut = await admin.trim_log(before_time_ms=number_in(values, "before_ms", least=1), timeout_ms=CHANGE_MS)
    return f"{cut.messages:,} messages were removed; {cut.bytes_kept:,} bytes stay."


async def _hold(admin: ConsoleAdmin, values: dict[str, str]) -> str:
    name = plans.checked_name(values.get("name", ""), "The name")
    hours = number_in(values, "hours", 24, least=1, most=MAX_HOURS)
    await admin.hold_log(name, ttl_ms=hours * HOUR_MS, timeout_ms=CHANGE_MS)
    return f"The logs are held as {name} for {hours} hours."


async def _release(admin: ConsoleAdmin, values: dict[str, str]) -> str:
    name = plans.checked_name(values.get("name", ""), "The name")
    was_held = await admin.release_log(name, timeout_ms=CHANGE_MS)
    return f"The hold {name} is released." if was_held else f"No log had a hold with the name {name}."


def _node(values: dict[str, str]) -> int:
    """Return the node of a form. Raises InvalidArgumentError."""
    return number_in(values, "node", least=1, most=MAX_NODE)


PLANS: dict[str, Callable[[ConsoleAdmin, dict[str, str]], Awaitable[Plan]]] = {
    "transfer": _plan_transfer,
    "pin": _plan_pin,
    "add": _plan_add,
    "promote": _plan_promote,
    "remove": _plan_remove,
    "drain": _plan_drain,
    "end-drain": _plan_end_drain,
    "balance": _of_placement(placement_plans.balance_plan),
    "end-balance": _of_placement(placement_plans.end_balance_plan),
    "pause-moves": _of_placement(placement_plans.pause_plan),
    "resume-moves": _of_placement(placement_plans.resume_plan),
    "trim": _plan_trim,
    "hold": _plan_hold,
    "release": _plan_release,
}
ACTIONS: dict[str, Callable[[ConsoleAdmin, dict[str, str]], Awaitable[str]]] = {
    "transfer": _transfer,
    "pin": _pin,
    "add": _add,
    "promote": _promote,
    "remove": _remove,
    "drain": _drain,
    "end-drain": _end_drain,
    "balance": _balance,
    "end-balance": _end_balance,
    "pause-moves": _pause,
    "resume-moves": _resume,
    "trim": _trim,
    "hold": _hold,
    "release": _release,
}

ROUTES = [
    Route("GET", f"{ROOT}/operations", show),
    Route("GET", f"{ROOT}/operations/trim", trim_from_hours),
    Route("GET", f"{ROOT}/operations/plan/{{action}}", plan),
    Route("POST", f"{ROOT}/operations/{{action}}", carry_out),
]
