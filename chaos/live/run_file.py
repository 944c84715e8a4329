"""The file `run.json`: the options of a run, the times of its load, and its promise.

The file also has a digest of the rest of its content. A judgement believes what the file says about other files, so it
must notice if the file itself was changed. The digest does not protect against somebody who calculates it anew.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field

from chaos.errors import ChaosError
from chaos.live.options import ChaosOptions
from chaos.live.promise import RunPromise
from chaos.live.records import record_of

_NAME = "run.json"
_LATEST = 1 << 62


@dataclass(frozen=True, slots=True)
class RunFile:
    """The content of `run.json`. `began` and `ended` are when the load began and ended, in ns of the histories' clock.
    `unrecovered` is the reason why the cluster did not recover; "" if it recovered. `promise` is None in files of older
    versions.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    options: ChaosOptions
    began: Annotated[int, Field(ge=0, le=_LATEST)]
    ended: Annotated[int, Field(ge=0, le=_LATEST)]
    unrecovered: str
    promise: RunPromise | None = None
    digest: str = ""

    def save(self, directory: Path) -> None:
        values = asdict(self)
        values["digest"] = _digest(values)
        (directory / _NAME).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> tuple[Self, list[str]]:
        """Read the file. Returns its content, and one sentence if the file is not as the run wrote it. Raises
        ChaosError if the file is missing, or if its values are not those of a run."""
        try:
            text = (directory / _NAME).read_bytes()
        except OSError as error:
            raise ChaosError(f"{directory} is not the directory of a finished chaos run: {error.strerror}") from error
        found = record_of(text, cls, f"{directory} is not the directory of a finished chaos run: {_NAME}")
        if found.ended <= found.began:
            raise ChaosError(f"{directory / _NAME} says that the load ended before it began")
        return found, found._changes(json.loads(text))

    def _changes(self, values: dict[str, Any]) -> list[str]:
        if self.promise is None:
            return [f"{_NAME} does not promise any files or final readings: it was changed, or is of an older version"]
        if not self.digest:
            return [f"{_NAME} has no digest of itself: it was changed, or is of an older version"]
        # The values of the file, because the record also has default values for what the file lacks.
        return [] if self.digest == _digest(values) else [f"{_NAME} was changed after the run"]


def _digest(values: dict[str, Any]) -> str:
    """Return the digest of all values except the digest itself."""
    rest = {name: value for name, value in values.items() if name != "digest"}
    return sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
