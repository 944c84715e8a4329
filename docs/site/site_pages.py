"""How the documents of the repository become pages of the site.

The documents are written for a code host. The site adds tables of contents, and sends links to the scripts of
examples/ to the page that shows them.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
_SCRIPT_LINK = re.compile(r"\]\((?:\.\./)?(?:examples/)?((?:\w+/)*\w+\.py)\)")


# The tables of contents, which a code host does not need. They go to the ends of these documents.
CONTENTS = {
    "README": HERE / "navigation.md",
    "docs/adr/README": HERE / "decisions.md",
    "examples/README": HERE / "programs.md",
}


def anchor(script: str) -> str:
    """Return the anchor of an example on the page of examples, from its path below examples/."""
    return "example-" + re.sub(r"\W+|_", "-", script.removesuffix(".py"))


def _read(app: Sphinx, document: str, content: list[str]) -> None:
    if Path(app.env.doc2path(document)).suffix != ".md":
        return
    content[0] = _SCRIPT_LINK.sub(lambda match: f"](#{anchor(match[1])})", content[0])
    contents = CONTENTS.get(document)
    if contents is not None:
        content[0] += "\n" + contents.read_text(encoding="utf-8")


def _write_index(app: Sphinx, error: Exception | None) -> None:
    """The first page gets the name under which a server or a browser looks for it."""
    if error is None and app.builder.format == "html":
        shutil.copyfile(Path(app.outdir, f"{app.config.root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _read)
    app.connect("build-finished", _write_index)
    return {"parallel_read_safe": True}
