"""What all tests have."""

from __future__ import annotations

from hypothesis import settings

# No test judges how long anything takes: the machine may be busy with something else.
settings.register_profile("ledgermq", deadline=None)
settings.load_profile("ledgermq")
