"""One thing that the doctor finds wrong with a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Urgency = Literal["critical", "warning", "note"]


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that is wrong: what it is, and the command that helps. `code` names the kind, for programs."""

    urgency: Urgency
    code: str
    what: str
    command: str
