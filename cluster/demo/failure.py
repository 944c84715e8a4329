"""The errors that prevent the demo from giving a verdict. The message of each of these errors is written for users."""

from __future__ import annotations


class DemoError(Exception):
    """The demo could not finish. The message says at which step the demo stopped."""


class NothingToSendError(DemoError):
    """The input of the demo contains no line that can be sent."""
