"""The programs in docs/TESTING.md run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.testing.test_plugin import run_pytest

pytestmark = pytest.mark.real

GUIDE = Path(__file__).resolve().parents[3] / "docs/TESTING.md"


def test_the_programs_of_the_guide_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    suites = [block for block in blocks if "def test_" in block]
    assert len(suites) == 5
    for number, suite in enumerate(suites):
        (tmp_path / f"test_block_{number}.py").write_text(suite)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout
