"""Adds pages to the site that `make docs` builds: README, CONTRIBUTING, and the API.

MkDocs calls the functions. The other pages are those of docs/, whose links it follows; links
between them and the documents above docs/ are changed here.
"""

from __future__ import annotations

import json
import pkgutil
import re
from pathlib import Path
from types import FunctionType
from typing import Any

import bakeoff

ROOT = Path(__file__).parents[1]
# Room for lines of 100 characters; names in the first column of a table stay whole.
STYLE = ".md-grid {max-width: 75rem} td:first-child code {white-space: nowrap}\n"
ABOVE = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md"}
PARTS = {  # a heading, the sentence below it, and the objects of that part of the API
    "Functions and specifications": (
        "All are imported as `from bakeoff import NAME`.",
        [f"{bakeoff._HOMES[name]}.{name}" for name in bakeoff.__all__],
    ),
    "Options and results": (
        "`Options` is in `bakeoff.suite.sweep.driver`; the others are returned.",
        [
            "bakeoff.suite.sweep.driver.Options",
            "bakeoff.suite.sweep.finish.SweepOutcome",
            "bakeoff.suite.execution.run_task.TaskResult",
        ],
    ),
    "Classes to extend": (
        "`Mixer` and `Architecture` are in `bakeoff.models`, `Task` in `bakeoff.suite.tasks.task`.",
        [
            "bakeoff.models.mixer.Mixer",
            "bakeoff.models.architecture.Architecture",
            "bakeoff.suite.tasks.task.Task",
        ],
    ),
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    pages = {name: (ROOT / source).read_text("utf-8") for name, source in ABOVE.items()}
    for name, text in {**pages, "api.md": _api()}.items():
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "site.css", content=STYLE))
    files.append(File.generated(config, "NOTICE", abs_src_path=str(ROOT / "NOTICE")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Change what GitHub and MkDocs read differently: links out of docs/, and folded text."""
    text = re.sub(r"\]\(([^)\s]+)\)", lambda link: f"]({_target(link[1], page)})", markdown)
    return text.replace("<details>", '<details markdown="1">')


def _target(link: str, page: Any) -> str:
    path, mark, anchor = link.replace("\\_", "_").partition("#")
    if path.startswith("http"):
        return link
    if page.file.src_uri in ABOVE:
        path = path.removeprefix("docs/")
    for name, source in ABOVE.items():
        if path.removeprefix("../") == source:
            path = name
    if path.endswith("/report.md"):  # the page beside it has the same content
        path = path.removesuffix("report.md") + "index.html"
    return f"{path}{mark}{anchor}"


def _api() -> str:
    """Return a page of directives, which mkdocstrings replaces by the docstrings."""
    text = "# API\n"
    for title, (sentence, names) in PARTS.items():
        text += f"\n## {title}\n\n{sentence}\n"
        for name in names:
            members = _methods(name) if title == "Classes to extend" else False
            text += f"\n::: {name}\n    options: {json.dumps({'members': members})}\n"
    return text


def _methods(name: str) -> list[str]:
    """Return the public methods of a class; its docstring describes the attributes."""
    members = vars(pkgutil.resolve_name(name)).items()
    kinds = (FunctionType, classmethod)
    return [each for each, value in members if isinstance(value, kinds) and each[0] != "_"]
