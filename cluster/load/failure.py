"""The error of a load or of a measurement. This module imports nothing (see cluster/cli/failure.py)."""

from __future__ import annotations


class LoadError(Exception):
    """The load cannot run, or its result is wrong. The message says why, and what to do."""
