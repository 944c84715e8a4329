"""Why a chaos run cannot begin or go on: a sentence for whoever asked for it."""

from __future__ import annotations


class ChaosError(Exception):
    """The environment cannot do what the run needs; the message says what, and the way out."""
