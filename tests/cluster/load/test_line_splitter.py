from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.load.line_splitter import LineSplitter


def split(pieces: list[bytes], separator: bytes, longest: int) -> list[bytes]:
    splitter = LineSplitter(separator, longest_bytes=longest)
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    return lines + splitter.finish()


def naive(data: bytes, separator: bytes, longest: int) -> list[bytes]:
    lines = data.split(separator)
    if not lines[-1]:
        lines.pop()
    return [line[:longest] for line in lines]


@given(
    pieces=st.lists(st.text("ab|-", max_size=9).map(str.encode), max_size=12),
    separator=st.sampled_from([b"|", b"|-", b"||", b"-|-"]),
    longest=st.integers(1, 12),
)
def test_pieces_do_not_matter(pieces: list[bytes], separator: bytes, longest: int) -> None:
    assert split(pieces, separator, longest) == naive(b"".join(pieces), separator, longest)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n\nb\r\n", [b"a", b"", b"b\r"]),
        (b"\xff\x00\n\xfe", [b"\xff\x00", b"\xfe"]),
    ],
)
def test_lines_are_kept_as_they_are(data: bytes, lines: list[bytes]) -> None:
    assert split([data], b"\n", 100) == lines


def test_an_endless_line_takes_bounded_memory() -> None:
    splitter = LineSplitter(longest_bytes=1000)
    for _ in range(100):
        assert splitter.feed(b"x" * 5000) == []
        assert len(splitter._rest) + len(splitter._head) <= 1000
    assert splitter.feed(b"\nnext\n") == [b"x" * 1000, b"next"]
