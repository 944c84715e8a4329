"""The SCRAM mechanism of passwords, by the library `scramp` (the extra `password`).

The library takes as long to load as the rest of a client. So clients load this module only when they make a verifier.
"""

from __future__ import annotations

from scramp import ScramException, ScramMechanism

__all__ = ["MECHANISM", "ScramException"]

MECHANISM = ScramMechanism("SCRAM-SHA-256")
