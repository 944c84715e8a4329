"""The error that a load or a measurement raises. This module imports no other module, so that
cluster/cli/failure.py can import it at low cost."""

from __future__ import annotations


class LoadError(Exception):
    """The load cannot run, or its result is wrong. The message of the error says why, and what the user can do."""
