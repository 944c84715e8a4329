"""What can keep the demo from coming to a verdict. The messages are for a person."""

from __future__ import annotations


class DemoError(Exception):
    """The job could not be done to its end; the message says where it stopped."""


class NothingToSendError(DemoError):
    """The input has no line that could be sent."""
