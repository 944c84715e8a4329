"""Settings of Sphinx for the site that `make docs` builds. Read README.md of this folder first."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT)]

from ledger.version import VERSION  # noqa: E402

project = "ledgermq"
author = "the authors of ledgermq"
version = release = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "site_pages", "api_reference", "code_pages"]

# The source folder is the repository, so that links between documents are the same here and on a code host. A document
# below these paths that docs/site/navigation.md does not name is an error.
root_doc = "README"
include_patterns = ["*.md", "docs/**", "examples/**.md", "tests/README.md"]
exclude_patterns = [".*", "*-data", "build", "docs/site/[a-z]*.md", "**/__pycache__"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# Every reference must lead somewhere, but for types of Python and of other libraries, for private types of the fixtures
# for tests, and for names in prose that may be of another library.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:class", r"(_?asyncio|collections|concurrent|contextlib|datetime|pathlib|random|signal|types|typing)\..*"),
    (r"py:class", r"(numpy|pytest)\..*|SparkSession"),
    (r"py:class", r"cluster\.testing\.async_cluster\.BlockingCluster|ledger\.timed\.WaitingMessages|Scope"),
    (r"py:obj", r".*"),
]

smartquotes = False  # options such as --data keep their hyphens
myst_heading_anchors = 4

autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "member-order": "bysource",
    # Members of base classes, but not of these.
    "inherited-members": "object, tuple, BaseException, Exception, Enum, DockerContainer",
}
autodoc_docstring_signature = False
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

# The pages load nothing from other hosts: furo brings its scripts and styles, and uses the fonts of the system.
html_theme = "furo"
html_title = f"ledgermq {VERSION}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
