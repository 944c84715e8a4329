"""Type-checks code that contains a planted fault.

A planted fault can fit the text of the code and still be stale: a name that the fault uses can have moved. Such a fault
raises an exception, and a simulator or a chaos run would catch the exception instead of the fault.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
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
        files = sorted({change.file for change in mutant.changes})
        plant(mutant, self._directory)
        command = (sys.executable, "-m", "mypy", "--no-warn-unreachable", "--no-error-summary", *files)
        checked = subprocess.run(command, cwd=self._directory, capture_output=True, text=True, check=False)
        for file in files:
            shutil.copy(ROOT / file, self._directory / file)
        return checked.stdout + checked.stderr
