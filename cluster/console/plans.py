"""The plans of operations: what an operation would do, for the page that an operator reads before the button.

All functions are pure. They compute from what the leaders have said of the members of their shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ledger.client.records import LogCut, Member, Members
from ledger.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Plan:
    """What an operation would do. `fields` are what the form of the button sends. An operation with `dangers` can lose
    data or stop writes, and its button says so. An operation with `refusals` has no button."""

    action: str
    title: str
    button: str
    fields: Mapping[str, str]
    consequences: tuple[str, ...] = ()
    dangers: tuple[str, ...] = ()
    refusals: tuple[str, ...] = field(default=())


def failures_survived(voters: int) -> int:
    """Return how many voters may fail at the same time while the others still commit."""
    return (voters - 1) // 2 if voters else 0


def transfer_plan(shard: int, members: Members, to: int) -> Plan:
    """Plan that node `to` leads the shard. If `to` is 0, the leader chooses the node."""
    refusals = []
    target = members.get(to)
    lag = ""
    if to:
        if target is None or not target.voter:
            refusals.append(f"Node {to} is no voter of shard {shard}.")
        elif to == members.leader:
            refusals.append(f"Node {to} leads shard {shard} already.")
        elif target.suspect:
            refusals.append(f"Node {to} may have lost entries, so it cannot lead before it has caught up.")
        else:
            lag = f" Node {to} lacks {target.lag_entries} entries now."
    return Plan(
        "transfer",
        f"Transfer the leadership of shard {shard}",
        f"Transfer to node {to}" if to else "Transfer",
        {"shard": str(shard), "to": str(to)},
        (
            f"Node {members.leader} stops leading shard {shard}, and "
            f"{f'node {to}' if to else 'the most up-to-date other voter'} takes over.{lag}",
            "Sends to the shard wait meanwhile, usually for less than a second. Clients repeat them by themselves.",
            _afterwards(members, to),
        ),
        refusals=tuple(refusals),
    )


def _afterwards(members: Members, to: int) -> str:
    """Return how long leadership stays at node `to` after a transfer; 0: at the node that the leader chooses."""
    preferred = members.preferred_leader
    if not preferred:
        return "The shard has no preferred leader, so the new leader leads until another node is elected."
    kind = "pinned as the leader of the shard" if members.pinned_leader else "the preferred leader of the shard"
    if preferred == to:
        return f"Node {to} is {kind}, so it keeps leadership."
    return (
        f"Node {preferred} is {kind} and takes leadership back about {members.preference_ms / 1000:.3g} s later. To "
        "prevent this, pin the new leader."
    )


def pin_plan(shard: int, members: Members, node: int) -> Plan:
    """Plan that node `node` leads the shard whenever it can. If `node` is 0, remove the pin."""
    if not node:
        refusals = () if members.pinned_leader else (f"Shard {shard} has no pinned leader.",)
        return Plan(
            "pin",
            f"Remove the pin of the leader of shard {shard}",
            "Remove the pin",
            {"shard": str(shard), "node": "0"},
            ("If the shard has a preferred leader, leadership returns to it. Otherwise the present leader goes on.",),
            refusals=refusals,
        )
    member = members.get(node)
    is_voter = member is not None and member.voter
    return Plan(
        "pin",
        f"Pin node {node} as the leader of shard {shard}",
        f"Pin node {node}",
        {"shard": str(shard), "node": str(node)},
        (
            f"Node {node} leads shard {shard} whenever it can, also after elections and restarts. While it is down, "
            "another node leads.",
            f"If another node leads now, it hands leadership over within about {members.preference_ms / 1000:.3g} s.",
            "The pin ends when you remove it, or when the node is removed from the shard.",
        ),
        refusals=() if is_voter else (f"Node {node} is no voter of shard {shard}.",),
    )


def add_plan(shards: Sequence[Members], node: int, address: str) -> Plan:
    """Plan that a new node becomes a learner of all shards."""
    known = [members for members in shards if members.get(node) is not None]
    return Plan(
        "add",
        f"Add node {node}",
        f"Add node {node} as a learner",
        {"node": str(node), "address": address},
        (
            f"Node {node} at {address} becomes a learner of {len(shards)} shard(s). It must run with `join = true` and "
            "an empty data directory.",
            "The leaders send it their logs. A learner does not vote, so no majority changes.",
            "When it has caught up, promote it on this page, so that it votes.",
        ),
        refusals=(f"Node {node} is a member already.",) if len(known) == len(shards) else (),
    )


def promote_plan(shards: Mapping[int, Members], node: int) -> Plan:
    """Plan that a learner becomes a voter."""
    consequences, refusals = [], []
    for shard, members in shards.items():
        member = members.get(node)
        if member is None or member.voter:
            continue
        voters = _voters(members)
        consequences.append(f"{_change(shard, voters, voters + 1)} Node {node} lacks {member.lag_entries} entries.")
        if not member.caught_up:
            refusals.append(f"Node {node} has not caught up in shard {shard}: wait until it has.")
    if not consequences:
        refusals.append(f"Node {node} is no learner of any shard.")
    return Plan(
        "promote",
        f"Promote node {node}",
        f"Promote node {node}",
        {"node": str(node)},
        tuple(consequences),
        (),
        tuple(refusals),
    )


def remove_plan(shards: Mapping[int, Members], node: int) -> Plan:
    """Plan that a node is no member any more."""
    consequences, dangers, refusals = [], [], []
    for shard, members in shards.items():
        member = members.get(node)
        if member is None:
            continue
        voters = _voters(members)
        if not member.voter:
            consequences.append(f"Shard {shard}: node {node} is a learner; no majority changes.")
            continue
        left = voters - 1
        leads = f" Node {node} leads it, and hands over first." if members.leader == node else ""
        consequences.append(_change(shard, voters, left) + leads)
        if left == 0:
            refusals.append(f"Node {node} is the last voter of shard {shard}.")
        elif failures_survived(left) < failures_survived(voters):
            dangers.append(
                f"Shard {shard} survives fewer failures afterwards. "
                f"{'One more failed node stops its writes.' if failures_survived(left) == 0 else ''}"
            )
        behind = [each.node for each in members.members if each.voter and each.node != node and not each.caught_up]
        if behind:
            dangers.append(f"Shard {shard}: node(s) {', '.join(map(str, behind))} lack entries or do not answer.")
    if not consequences:
        refusals.append(f"Node {node} is a member of no shard.")
    dangers.append(
        "A removed node cannot come back with its data: its directory must be emptied before it joins again."
    )
    return Plan(
        "remove",
        f"Remove node {node}",
        f"Remove node {node}",
        {"node": str(node)},
        tuple(consequences),
        tuple(dangers),
        tuple(refusals),
    )


def trim_plan(cut: LogCut, fields: Mapping[str, str]) -> Plan:
    """Plan that the oldest messages are removed. `cut` is the result of a dry run."""
    cuts = cut.by_shard or (cut,)
    consequences = tuple(
        f"Shard {each.shard}: {each.messages:,} messages in {each.entries:,} entries ({each.bytes:,} bytes) are "
        f"removed; {each.bytes_kept:,} bytes stay."
        for each in cuts
        if each.entries
    )
    refusals = []
    if not consequences:
        refusals.append("Nothing would be removed: only whole segments are removed, and never the newest one.")
    if cut.held_by:
        refusals.append(f"The log is held by {', '.join(cut.held_by)}: release the hold first.")
    return Plan(
        "trim",
        "Remove old messages",
        "Remove them for good",
        fields,
        consequences,
        ("Removed messages cannot be restored, also not for consumer groups that have not read them.",)
        if consequences
        else (),
        tuple(refusals),
    )


def hold_plan(name: str, hours: int) -> Plan:
    return Plan(
        "hold",
        f"Hold the logs as {name}",
        "Take the hold",
        {"name": name, "hours": str(hours)},
        (
            f"No shard removes entries for {hours} hours, or until the hold is released, also if they are older than "
            "the retention settings allow.",
            "The logs grow meanwhile. A node whose disk is nearly full takes no writes.",
        ),
        refusals=() if name else ("The hold needs a name.",),
    )


def release_plan(name: str, holds: Sequence[str]) -> Plan:
    return Plan(
        "release",
        f"Release the hold {name}",
        "Release it",
        {"name": name},
        ("Retention may remove old entries again, at its next check within a minute.",),
        ("The reader that took the hold may miss messages if it has not finished.",),
        () if name in holds else (f"No log has a hold with the name {name}.",),
    )


def checked_name(name: str, what: str) -> str:
    """Return a name of a form, without spaces around it. Raises InvalidArgumentError if it is empty or too long."""
    name = name.strip()
    if not 0 < len(name) <= 200:
        raise InvalidArgumentError(f"{what} must have 1 to 200 characters")
    return name


def _voters(members: Members) -> int:
    return sum(member.voter for member in members.members)


def _change(shard: int, before: int, after: int) -> str:
    """Return what a change of the number of voters means."""
    return (
        f"Shard {shard}: {before} voters become {after}; it survives {failures_survived(after)} failure(s) "
        f"(now {failures_survived(before)})."
    )


def members_by_node(shards: Mapping[int, Members]) -> dict[int, dict[int, Member]]:
    """Return for each node its membership by shard."""
    found: dict[int, dict[int, Member]] = {}
    for shard, members in shards.items():
        for member in members.members:
            found.setdefault(member.node, {})[shard] = member
    return dict(sorted(found.items()))
