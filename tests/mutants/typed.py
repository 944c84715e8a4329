"""Type-checks code that contains a planted fault.

A planted fault can fit the text of the code and still be stale: a name that the fault uses can have moved. Such a fault
raises an exception, and a simulator or a chaos run would catch the exception instead of the fault.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant, copy_of_the_code, plant


class TypedCopy:
    """A copy of the product's code, into which faults are planted one at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        copy_of_the_code(directory)
        shutil.copy(ROOT / "pyproject.toml", directory)

    def errors(self, mutant: Mutant) -> str:
        """Plant the fault, return mypy's errors for the changed files, and restore the code. Return "" if the planted
        code has no errors.
        """
        plant(mutant, self._directory)
        return self._errors(sorted({change.file for change in mutant.changes}))

    def errors_with(self, sources: Mapping[str, str]) -> str:
        """Replace these files, return mypy's errors for them, and restore the code."""
        for file, source in sources.items():
            (self._directory / file).write_text(source)
        return self._errors(sorted(sources))

    def _errors(self, files: Sequence[str]) -> str:
        command = (sys.executable, "-m", "mypy", "--no-warn-unreachable", "--no-error-summary", *files)
        checked = subprocess.run(command, cwd=self._directory, capture_output=True, text=True, check=False)
        for file in files:
            shutil.copy(ROOT / file, self._directory / file)
        return checked.stdout + checked.stderr
