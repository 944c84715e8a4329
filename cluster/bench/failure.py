"""What goes wrong in a measurement and is no fault of the program. It must import nothing (see cluster/cli/failure)."""

from __future__ import annotations


class BenchError(Exception):
    """It cannot be measured, or came out wrong; the message says why, and what to do."""
