"""The errors of sources."""

from __future__ import annotations


class SourceError(Exception):
    """A source cannot be read, so it cannot be judged. The message names the source and the reason."""


class SegmentGoneError(Exception):
    """Retention has removed a segment since the start of the validation."""
