"""The errors that prevent the demo from giving a verdict. The messages of these errors are written for users."""

from __future__ import annotations


class DemoError(Exception):
    """The demo could not finish. The message says at which step it stopped."""


class NothingToSendError(DemoError):
    """The input of the demo contains no line that can be sent."""
