"""The parts of the demo that give its verdict must fail on wrong input."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.demo.corpus import files_of, read_chunks, standard_library
from cluster.demo.failure import NothingToSendError
from cluster.demo.outage import Outage
from cluster.demo.replicas import difference
from cluster.load.tally import Tally

SEGMENT = 4096


def tally(*messages: tuple[bytes, bytes]) -> Tally:
    made = Tally()
    made.add_messages([key for key, _ in messages], [value for _, value in messages])
    return made


SENT = ((b"f", b"1"), (b"f", b"2"), (b"g", b"1"), (b"f", b"2"))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (SENT[:3], "f: 1 of 3 acknowledged lines are missing"),
        (SENT[:2] + SENT[3:], "g: 1 of 1 acknowledged lines are missing"),
        ((*SENT, SENT[0]), "f: 1 lines more than the 3 that were acknowledged"),
        ((*SENT, (b"h", b"")), "h: 1 lines more than the 0 that were acknowledged"),
        ((SENT[1], SENT[0], SENT[2], SENT[3]), "f: all 3 lines are there, but not in order, or changed"),
        (((b"f", b"0"), *SENT[1:]), "f: all 3 lines are there, but not in order, or changed"),
    ],
)
def test_a_tally_tells_what_differs(found: tuple[tuple[bytes, bytes], ...], sentence: str) -> None:
    assert tally(*SENT).differences(tally(*found)) == [sentence]


def test_tallies_agree_whatever_the_pieces() -> None:
    by_piece = Tally()
    by_piece.add(b"f", [b"1", b"2"])
    by_piece.add(b"f", [])
    by_piece.add(b"f", [b"2"])
    by_piece.add(b"g", [b"1"])
    assert by_piece.differences(tally(*SENT)) == []
    assert by_piece.lines == 4


def test_empty_lines_count() -> None:
    assert tally((b"f", b""), (b"f", b"")).differences(tally((b"f", b""))) != []


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    made = []
    for node in range(3):
        log = tmp_path / f"node-{node}"
        log.mkdir()
        for number in range(3):
            (log / f"{number * SEGMENT:020d}").write_bytes(bytes([number + 1]) * SEGMENT)
        made.append(log)
    return made


def test_equal_logs(logs: list[Path]) -> None:
    assert difference(logs, 3 * SEGMENT) is None


@pytest.mark.parametrize("position", [0, SEGMENT - 1, SEGMENT, 2 * SEGMENT + 99])
@pytest.mark.parametrize("node", [0, 2])
def test_one_other_byte_is_found(logs: list[Path], position: int, node: int) -> None:
    start = position // SEGMENT * SEGMENT
    file = logs[node] / f"{start:020d}"
    data = bytearray(file.read_bytes())
    data[position - start] ^= 1
    file.write_bytes(data)
    found = difference(logs, position + 1)
    assert found is not None
    assert f"position {position:,}" in found
    assert difference(logs, position) is None, "what lies behind the end does not count"


def test_a_missing_segment_is_found(logs: list[Path]) -> None:
    (logs[1] / f"{SEGMENT:020d}").unlink()
    assert "is missing" in (difference(logs, 2 * SEGMENT) or "")
    assert difference(logs, SEGMENT) is None


def test_outage_is_the_longest_silence_after_the_fault() -> None:
    outage = Outage()
    for now in (0.0, 5.0, 5.1):  # five seconds of silence before: not of this fault
        outage.acknowledged(now)
    outage.fault(5.15)
    assert outage.longest_ms is None
    for now in (5.2, 6.0, 6.3):
        outage.acknowledged(now)
    assert outage.longest_ms == 800


def test_outage_without_an_earlier_acknowledgement_begins_with_the_fault() -> None:
    outage = Outage()
    outage.fault(1.0)
    outage.acknowledged(1.5)
    assert outage.longest_ms == 500


def test_a_folder_is_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "sub" / "deep" / "b.txt").write_bytes(b"1\n2")
    (tmp_path / "a.txt").write_bytes(b"3\n")
    (tmp_path / "empty").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    corpus = files_of(tmp_path)
    assert [(file.key, file.tag, file.size) for file in corpus.files] == [
        (b"a.txt", "a", 2),
        (b"sub/deep/b.txt", "sub", 3),
    ]
    assert corpus.size == 5


def test_chunks_number_their_lines_and_cover_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    lines = [b"x" * (number % 7) for number in range(1000)]
    path.write_bytes(b"\n".join(lines) + b"\nlast")
    (file,) = files_of(path).files
    chunks = list(read_chunks(file, 100))
    assert [line for chunk in chunks for line in chunk.lines] == [*lines, b"last"]
    assert sum(chunk.size for chunk in chunks) == file.size
    starts = [1]
    for chunk in chunks:
        assert chunk.first_line == starts[-1]
        starts.append(starts[-1] + len(chunk.lines))


@pytest.mark.parametrize("name", ["empty-file", "empty-folder", "/dev/null"])
def test_nothing_to_send(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty-file").touch()
    (tmp_path / "empty-folder").mkdir()
    with pytest.raises(NothingToSendError):
        files_of(tmp_path / name)


@pytest.mark.long
def test_the_standard_library_is_a_corpus() -> None:
    corpus = standard_library()
    files = {file.key: file for file in corpus.files}
    assert files[b"asyncio/base_events.py"].tag == "asyncio"
    assert files[b"abc.py"].tag == "abc"
    assert not any(b"site-packages" in key for key in files)
    assert corpus.size > 1_000_000
