"""`bakeoff ui`: the dashboard of an output folder."""

from __future__ import annotations

from pathlib import Path

from bakeoff.suite.planning.loader import recorded_as
from bakeoff.suite.sweep.folder_lock import is_held
from bakeoff.suite.tracking.location import store_of, try_rebase
from bakeoff.suite.tracking.serve import serve


def show(name: str | None, out: Path, tracking_uri: str | None, *, port: int) -> None:
    """Serve until Ctrl-C, opened at that ablation; by default at the newest sweep.

    The server finds files by the paths in the store, which are corrected here if the folder was
    moved; during a run they are correct.
    """
    store = store_of(out, tracking_uri)
    if not is_held(out) and (moved := try_rebase(store)):
        print(moved, flush=True)
    ablation = next(iter(recorded_as([name]))) if name else ""
    serve(out, store.uri, port=port, ablation=ablation)
