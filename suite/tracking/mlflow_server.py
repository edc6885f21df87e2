"""Run MLflow's server with our start page: `python -m bakeoff.suite.tracking.mlflow_server server`.

MLflow opens at pages for language models, where an experiment shows no runs, and with a panel for
an assistant that takes a third of a narrow window. A browser stores both as settings of an address:
the start page sets them if the browser has no value yet. The plain address leads to the newest
sweep. If a later MLflow has another structure, its own pages are served unchanged.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from bakeoff.suite.tracking.client import StoreUnavailable
from bakeoff.suite.tracking.serve import SERVED_STORE, landing_page

_MLFLOW_APP, _OUR_APP = "mlflow.server.fastapi_app:app", "bakeoff.suite.tracking.mlflow_server:app"
_SETTINGS = {
    "mlflow.workflowType_v1": "machine_learning",
    "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": True,
}
_SCRIPT = """<script>
try {
  for (const [key, value] of Object.entries(SETTINGS))
    if (localStorage.getItem(key) === null) localStorage.setItem(key, JSON.stringify(value));
} catch (error) {}
if (location.hash.length < 3) history.replaceState(null, "", PAGE);
</script>"""


def with_script(page: str, landing: str) -> str:
    """Return MLflow's page with a script that runs before its own."""
    values = {"SETTINGS": _SETTINGS, "PAGE": landing}
    script = _SCRIPT
    for name, value in values.items():
        script = script.replace(name, json.dumps(value).replace("<", "\\u003c"))
    return page.replace("<head>", f"<head>{script}", 1)


def main() -> None:
    """Run the command `mlflow` with our start page."""
    from mlflow import cli, server

    build = getattr(server, "_build_uvicorn_command", None)
    if build is not None:
        server._build_uvicorn_command = lambda *args, **named: [
            _OUR_APP if part == _MLFLOW_APP else part for part in build(*args, **named)
        ]
    cli.cli()


def __getattr__(name: str) -> Any:
    """Return the application that the server runs; only this imports MLflow's."""
    if name != "app":
        raise AttributeError(name)
    from mlflow.server import app as pages
    from mlflow.server.fastapi_app import app

    index = Path(pages.static_folder or "", "index.html")
    if "serve" in pages.view_functions and index.is_file():
        pages.view_functions["serve"] = lambda: with_script(index.read_text(), _landing())
    return app


def _landing() -> str:
    try:
        return landing_page(os.environ[SERVED_STORE], "")
    except StoreUnavailable:
        return "#/experiments"


if __name__ == "__main__":
    main()
