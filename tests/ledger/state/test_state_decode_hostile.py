"""Encoded states that are damaged and have a correct CRC, as a hostile node could send them in a snapshot."""

from __future__ import annotations

import google_crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import InternalError
from ledger.state import State
from tests.ledger.state.test_state_encoding import full_sample, sample

CRC_BYTES = 4
SAMPLES = (sample(), full_sample())


def with_crc(data: bytes) -> bytes:
    crc: int = google_crc32c.value(data)
    return data + crc.to_bytes(CRC_BYTES, "little")


@settings(max_examples=400)
@given(st.data())
def test_changed_bytes_are_refused_or_are_another_state(data: st.DataObject) -> None:
    """No other error than InternalError ends the decoding, so the node refuses the snapshot and stays up."""
    changed = bytearray(data.draw(st.sampled_from(SAMPLES))[:-CRC_BYTES])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(4, len(changed) - 1))
        changed[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(8, len(changed))) if data.draw(st.booleans()) else len(changed)
    try:
        state = State.decode(with_crc(bytes(changed[:cut])))
    except InternalError:
        return
    state.encode()


@given(st.binary(max_size=200))
def test_noise_behind_a_good_header_is_refused(noise: bytes) -> None:
    try:
        State.decode(with_crc(sample()[:8] + noise))
    except InternalError:
        return
