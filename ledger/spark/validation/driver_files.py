"""Sends files of the driver to the executors, which may run on hosts that do not have these files."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


class DriverFiles:
    """Files that tasks read. With a local master, tasks read the files where they are. With another master, Spark
    copies the files to each executor."""

    def __init__(self, sc: SparkContext, paths: Sequence[Path]) -> None:
        # By number: the path of the file, or its name among the files that Spark has sent.
        self._paths = [str(path.resolve()) for path in paths]
        self._is_sent = not str(sc.master).startswith("local")
        if self._is_sent:
            self._paths = [_sent(sc, number, path) for number, path in enumerate(paths)]

    def path_of(self, number: int) -> Path:
        """Return the path at which a task can read the file `paths[number]`."""
        if not self._is_sent:
            return Path(self._paths[number])
        from pyspark import SparkFiles

        return Path(SparkFiles.get(self._paths[number]))


def _sent(sc: SparkContext, number: int, path: Path) -> str:
    """Send the file under a name that no other file has, and return this name. Spark names a file as its path ends."""
    directory = Path(tempfile.mkdtemp(prefix="ledgermq-files-"))
    link = directory / f"{number}-{directory.name}-{path.name}"
    link.symlink_to(path.resolve())
    try:
        sc.addFile(link.as_uri())  # not a plain path, of which Spark follows the link
    finally:  # at the end of the process, because executors that start later get the file, too
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return link.name
