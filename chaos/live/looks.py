"""How often a program of a chaos run looks at the cluster."""

from __future__ import annotations

_PAUSE_S = 0.1
_LOOK_SHARE = 0.1


def pause_after(look_s: float) -> float:
    """Return the pause in seconds after a look at all nodes that took `look_s` seconds: ten times as long, and at least
    0.1 s. So the looks of one program take at most a tenth of the time of a busy cluster."""
    return max(_PAUSE_S, look_s / _LOOK_SHARE)
