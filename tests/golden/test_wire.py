"""Messages between programs of different versions: what a released program sends and reads is still there."""

from __future__ import annotations

from tests.golden.wire import WIRE, files, lines


def test_no_field_and_no_method_of_a_release_is_gone_or_has_another_meaning() -> None:
    released, present = set(WIRE.read_text().splitlines()), set(lines(files()))
    assert len(released) > 500
    gone = sorted(released - present)
    assert not gone, "a field may be added, and never removed, renumbered or retyped"
