"""Changes variables of this process's environment for a while, also for the processes that start meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def changed_variables(changed: Mapping[str, str]) -> Iterator[None]:
    """Set these variables inside the `with` block, and restore what they were before."""
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
