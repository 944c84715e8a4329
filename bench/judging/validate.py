"""Measures how fast `ledgermq validate` checks the logs of three replicas, with one process and with Spark. The
benchmark also measures how much of the time is not spent on reading.

    .venv/bin/python -m bench.judging.validate --gib 0.25                          plain engine, one minute
    .venv/bin/python -m bench.judging.validate --gib 1 2 4 8 --engine "local[1]" "local[2]"
    .venv/bin/python -m bench.judging.validate --gib 1 8 32 --linked --engine plain "local[2]" spark://HOST:7077

In the shape `batches`, each entry of the log has 500 messages of 128 bytes (64 KiB). In the shape `single`, each entry
of the log has one message of 128 bytes. `command_s` is the time of the command `ledgermq validate` from start to end,
with the start and the end of Spark. `share_beside` is the share of the plain engine's time that the plain engine
spends on work other than reading the log and computing the two CRCs of each entry. To compute `share_beside`, the
script also measures a run that only reads and computes the CRCs.
"""

from __future__ import annotations

import json
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

from bench.judging.replicas import LogFiller, write_replicas
from bench.tables import options, show
from ledger.batch import encode
from ledger.v1 import command_pb2
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.report.report import ValidationReport
from ledger.validation.sources.access import FileAccess
from ledger.validation.sources.replica import SPAN_BYTES
from ledger.validation.sources.sources import open_sources
from ledger.validation.validate import plan_of, validate
from store import EntryDraft, EntryKind
from store.log.entry import HEADER_SIZE

MESSAGE_BYTES = 128
SHAPES = {"batches": 500, "single": 1}
GROUP_WRITE = 64


def make(directory: Path, size: int, count: int, segment_bytes: int, *, linked: bool = False) -> list[str]:
    """Write three replicas of a log of `size` bytes, with their ConsumeQueues; each entry has `count` messages. If
    `linked`, the files of the replicas are hard links of one copy.
    """

    def fill(filler: LogFiller) -> None:
        create = command_pb2.Command(create_topic=command_pb2.CreateTopic(name="t", queues=4))
        filler.append([EntryDraft(EntryKind.COMMAND, create.SerializeToString())])
        for drafts in _drafts(count):
            if filler.append(drafts)[-1].end >= size:
                return

    return write_replicas(directory, fill, segment_bytes, linked=linked)


def _drafts(count: int) -> Iterator[list[EntryDraft]]:
    rng, ends = random.Random(7), [0, 0, 0, 0]
    while True:
        drafts = []
        for queue in range(4):
            for _ in range(GROUP_WRITE // 4):
                values = [rng.randbytes(MESSAGE_BYTES)] * count
                body = encode(
                    values, topic_id=1, queue=queue, producer_id=7, epoch=0, first_sequence=ends[queue],
                    base_timestamp_ms=1, tags=["tag"] * count if count > 1 else None,
                )  # fmt: skip
                drafts.append(EntryDraft(EntryKind.BATCH, body, 1, queue, ends[queue], count))
                ends[queue] += count
        yield drafts


def reading_alone(sources: list[str]) -> float:
    """Return the processor time in seconds for reading every byte and computing the two CRCs of each entry."""
    replicas, _ = open_sources(sources)
    begun = time.process_time()
    for span in plan_of(replicas, SPAN_BYTES).spans:
        segment = replicas[span.replica].segments[span.segment]
        data = FileAccess().read(segment, span.begin, span.end)
        at = 0 if span.is_exact else len(data)
        while at + HEADER_SIZE <= len(data) and (size := int.from_bytes(data[at + 8 : at + 12], "little")):
            google_crc32c.extend(google_crc32c.value(data[at : at + 72]), data[at + HEADER_SIZE : at + size])
            at += (size + 7) & -8
        if not span.is_exact:  # no entry begins at the span's start: one CRC over all its bytes
            google_crc32c.value(data)
    return time.process_time() - begun


@dataclass(frozen=True, slots=True)
class ValidationFigures:
    shape: str
    gib_x3: float
    engine: str
    # Wall-clock time; with Spark, without the start of the session.
    seconds: float
    # Wall-clock time of the whole command; 0 if it was not measured.
    command_s: float
    mb_per_s: int
    entries_per_s: int
    # By processor time of the plain engine, which other processes change less; 0 for Spark.
    cpu_mb_per_s: int
    cpu_entries_per_s: int
    # A share of the processor time.
    share_beside: float


def judged(sources: list[str], engine: str) -> ValidationReport:
    if engine == "plain":
        return validate(sources, PlainEngine())
    from ledger.spark.session import spark_context
    from ledger.spark.validation.application import CONF
    from ledger.spark.validation.spark_engine import SparkEngine

    with spark_context("bench", master=engine, conf=CONF) as sc:
        sc.parallelize(range(8), 8).map(lambda number: number).count()  # starts the session
        return validate(sources, SparkEngine(sc))


class CommandFailedError(Exception):
    """`ledgermq validate` found the logs not valid. The message of the error has the end of the command's output."""


@dataclass(frozen=True, slots=True)
class CommandTimes:
    """The wall-clock times of one run of `ledgermq validate`, in seconds."""

    command: str
    # From the start of the process to its end.
    whole_s: float
    # Without the imports and the start and the end of Spark.
    validation_s: float


def commanded(engine: str, sources: list[str]) -> CommandTimes:
    """Run `ledgermq validate`. `engine` is "plain" or the address of a Spark master. Raises CommandFailedError."""
    words = ["ledgermq", "validate", "--format", "json", *([] if engine == "plain" else ["--master", engine]), *sources]
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    whole_s = time.perf_counter() - begun
    if done.returncode:
        raise CommandFailedError(f"{shlex.join(words)}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return CommandTimes(shlex.join(words), whole_s, float(json.loads(done.stdout)["seconds"]))


def measured(
    shape: str, gib: float, engine: str, sources: list[str], *, with_command: bool = False
) -> ValidationFigures:
    begun = time.process_time()
    report = judged(sources, engine)
    cpu = time.process_time() - begun if engine == "plain" else float("inf")
    assert report.status == 0, report.violations or report.not_judged
    replicas = [replica for shard in report.shards for replica in shard.replicas]
    entries, size = sum(replica.entries for replica in replicas), sum(replica.end for replica in replicas) / 1e6
    alone = reading_alone(sources) if engine == "plain" else 0.0
    command_s = commanded(engine, sources).whole_s if with_command else 0.0
    return ValidationFigures(
        shape, gib, engine, report.seconds, command_s, round(size / report.seconds), round(entries / report.seconds),
        round(size / cpu), round(entries / cpu), 1 - alone / cpu if alone else 0.0,
    )  # fmt: skip


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--gib", type=float, nargs="+", default=[0.25], help="of each of the three replicas")
    parser.add_argument("--engine", nargs="+", default=["plain"], help="plain, local[1], local[2], ...")
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--segment-mib", type=int, default=1024)
    parser.add_argument("--linked", action="store_true", help="store the bytes of the three replicas once (hard links)")
    parser.add_argument("--command", action="store_true", help="also measure the whole command (command_s)")
    chosen = parser.parse_args()
    rows = []
    for shape in chosen.shape:
        for gib in chosen.gib:
            directory = Path(tempfile.mkdtemp(prefix="validate-", dir=chosen.directory))
            try:
                size, segment_bytes = int(gib * (1 << 30)), chosen.segment_mib << 20
                sources = make(directory, size, SHAPES[shape], segment_bytes, linked=chosen.linked)
                rows += [measured(shape, gib, engine, sources, with_command=chosen.command) for engine in chosen.engine]
            finally:
                shutil.rmtree(directory)
    show({"Validation of three replicas": rows}, as_json=chosen.json)


if __name__ == "__main__":
    main()
