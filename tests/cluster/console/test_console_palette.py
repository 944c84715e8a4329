"""Tests that people with any colour vision can tell the parts of a log's bar apart."""

from __future__ import annotations

import re
from importlib import resources
from itertools import combinations

import numpy as np
import pytest

from cluster.console.bars import PARTS

# How people who lack one kind of cone see a colour (linear RGB), after Machado, Oliveira and Fernandes, 2009.
VISIONS = {
    "full": np.eye(3),
    "without red cones": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "without green cones": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "without blue cones": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
WHITE = [0.95047, 1.0, 1.08883]
# Differences (CIE 1976) above 2 can be seen side by side; these must be seen at a glance.
LEAST_DIFFERENCE = 15.0


def colours() -> dict[str, np.ndarray]:
    """Return the colours of the parts in linear RGB, from the style sheet."""
    text = (resources.files("ledger.report") / "palette.css").read_text(encoding="utf-8")
    found = {}
    for part in PARTS:
        code = re.search(rf"--{part}: #(\w{{6}})", text)
        assert code is not None, part
        value = np.array([int(code[1][at : at + 2], 16) for at in (0, 2, 4)]) / 255
        found[part] = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return found


def lab(linear: np.ndarray) -> np.ndarray:
    ratio = np.array(TO_XYZ) @ np.clip(linear, 0, 1) / WHITE
    x, y, z = np.where(ratio > 216 / 24389, np.cbrt(ratio), (ratio * 24389 / 27 + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
def test_the_parts_of_a_bar_differ(vision: str) -> None:
    seen = {part: lab(np.array(VISIONS[vision]) @ colour) for part, colour in colours().items()}
    for one, other in combinations(PARTS, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > LEAST_DIFFERENCE, (one, other)
