"""The error that a chaos run shows to its user when the run cannot start or continue."""

from __future__ import annotations


class ChaosError(Exception):
    """The environment lacks something that the run needs. The message names what the environment lacks, and says
    what to do."""
