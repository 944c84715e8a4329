"""A mirror between clusters, without a cluster: a defect of a task ends the mirror."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.errors import InternalError, LedgerError, NoLeaderError
from ledger.mirror import cluster_mirror
from ledger.mirror.cluster_access import ClusterAccess
from ledger.mirror.cluster_mirror import ClusterMirror, MirrorSettings
from ledger.mirror.mirror_progress import MirrorProgress
from ledger.mirror.topic_patterns import TopicPatterns


class Progress:
    """Stands for the progress of a mirror in one cluster."""

    def __init__(self, error: LedgerError | None = None) -> None:
        self.error = error
        self.stored = 0

    async def store(self) -> None:
        if self.error is not None:
            raise self.error
        self.stored += 1


class Access:
    """Stands for the access to a cluster."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(routes=None, request_timeout_ms=1)

    async def stop(self) -> None: ...


class Streams:
    def end_stalled(self, *_: Any) -> None:
        raise KeyError("a defect")

    async def close(self) -> None: ...


def opened(progress: Progress, copies: Progress) -> ClusterMirror:
    """Return a mirror that is open and copies nothing."""
    source, target = (cast(ClusterAccess, Access()) for _ in range(2))
    mirror = ClusterMirror(source, target, MirrorSettings(TopicPatterns(("t",), (), "")))
    mirror._started = [source, target]
    mirror._streams = cast(Any, Streams())
    mirror._progress, mirror._copies = cast(MirrorProgress, progress), cast(MirrorProgress, copies)
    return mirror


async def test_a_defect_of_a_task_ends_the_mirror(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster_mirror, "_WATCH_S", 0.001)
    mirror = opened(Progress(), Progress())
    with pytest.raises(InternalError, match="streams of a mirror"):
        await asyncio.wait_for(mirror.run(), 5)
    assert "Traceback" in caplog.text
    await mirror.close()


async def test_a_mirror_that_ends_leaves_its_marks_although_the_source_does_not_answer() -> None:
    progress, copies = Progress(NoLeaderError("no leader")), Progress()
    mirror = opened(progress, copies)
    await mirror.close()
    assert copies.stored == 1
    assert "no leader" in mirror.tally.trouble
