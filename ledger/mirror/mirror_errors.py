"""Why a mirror stops."""

from __future__ import annotations

from ledger.errors import OperationError


class MirrorRefusedError(OperationError):
    """A mirror cannot go on without a decision of its operator. The message says what happened and what to do."""
