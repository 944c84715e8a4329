"""The errors that prevent a verdict of the demo. Their messages are for users."""

from __future__ import annotations


class DemoError(Exception):
    """The demo could not finish. The message says where it stopped."""


class NothingToSendError(DemoError):
    """The input contains no line that can be sent."""
