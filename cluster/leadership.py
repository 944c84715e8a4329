"""Says how long the leader of a shard keeps leadership, for the command line and the console."""

from __future__ import annotations

from ledger.client.records import Members


def leadership_sentence(shard: int, members: Members) -> str:
    """Return who leads the shard, and which node takes leadership over by itself, and when."""
    leader, preferred = members.leader, members.preferred_leader
    leads = f"Node {leader} leads shard {shard}"
    if not members.preference_ms:  # a leader of an older version does not tell
        return f"{leads}."
    if not preferred:
        return f"{leads} until another node is elected or leadership is transferred again; --pin makes it lead always."
    if preferred == leader:
        kind = "pinned as its leader" if members.pinned_leader else "its preferred leader"
        return f"{leads}. It is {kind}, so it leads whenever it can."
    returns = f"takes leadership back {_when(members)}"
    if members.pinned_leader:
        return (
            f"{leads}. Node {preferred} is pinned as its leader and {returns}; --pin pins node {leader} instead, and "
            "--unpin removes the pin."
        )
    return f"{leads}. Node {preferred} is its preferred leader and {returns}; --pin keeps it on node {leader}."


def unpinned_sentence(shard: int, members: Members) -> str:
    """Return what follows after the pin of a shard's leader was removed."""
    leader, preferred = members.leader, members.preferred_leader
    unpinned = f"Shard {shard} has no pinned leader."
    if not preferred:
        return f"{unpinned} Node {leader} leads until another node is elected or leadership is transferred."
    if preferred == leader:
        return f"{unpinned} Node {leader} leads, and is its preferred leader."
    takes_over = f"node {preferred}, its preferred leader, takes over {_when(members, 'within about')}"
    return f"{unpinned} Node {leader} leads, and {takes_over}."


def _when(members: Members, about: str = "in about") -> str:
    """Return when the preferred leader takes over, in words."""
    preferred = members.get(members.preferred_leader)
    then = f"{about} {members.preference_ms / 1000:.3g} s"
    return then if preferred is not None and preferred.caught_up else "as soon as it answers and has caught up"
