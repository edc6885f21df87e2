"""Render a report: all files of a page, written at once.

All content is made before anything is written, each file is replaced atomically, and the page comes
last: a reader never gets half a report, and a failure leaves the old one.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pandas as pd

from bakeoff.reports.escape import slug
from bakeoff.reports.export.printers import frame_to_csv, to_csv, to_latex
from bakeoff.reports.export.templating import html_templates, markdown_templates
from bakeoff.reports.pages.ablation import ordered, page, shown_sweep
from bakeoff.reports.pages.overview import overview
from bakeoff.reports.results.axis_values import with_axes
from bakeoff.reports.results.frame import FrameError, to_parquet_bytes
from bakeoff.reports.view import Sweep


def render(ablation: str, sweeps: Sequence[Sweep], folder: Path, scale: str | None = None) -> Path:
    """Write the report of one ablation; equal sweeps give equal bytes.

    Args:
        ablation: The name of the ablation.
        sweeps: One sweep per scale.
        folder: The reports' folder; the report is written to a folder of its own inside.
        scale: The scale that the page shows; by default the largest scale that has results. Files
            of results contain every scale, that of curves only the one shown.

    Returns:
        Path of `index.html`.

    Raises:
        FrameError: if there is no sweep, two of one scale, one of another ablation, or none at the
            requested scale.
        OSError: if the folder cannot be written.
    """
    _check(ablation, sweeps)
    home = folder / slug(ablation)
    content = _content(ordered(sweeps), shown_sweep(sweeps, scale))
    for name, text in content.items():
        write_whole(home / name, text)
    for inner in ("tables", "figures"):
        kept = [Path(name).name for name in content if name.startswith(f"{inner}/")]
        _remove_stale(home / inner, (".csv", ".tex", ".svg"), kept)
    return home / "index.html"


def render_overview(
    sweeps_by_ablation: Mapping[str, Sequence[Sweep]],
    folder: Path,
    themes: Mapping[str, str] | None = None,
) -> Path:
    """Write `index.html` and `index.md`: every ablation, and every claim with its verdict.

    Args:
        sweeps_by_ablation: The sweeps of each ablation.
        folder: The folder of the reports.
        themes: Ablation -> theme, in the order of the page.

    Returns:
        Path of `index.html`.

    Raises:
        FrameError: as for `render`.
        OSError: if the folder cannot be written.
    """
    shown = {}
    for ablation, sweeps in sweeps_by_ablation.items():
        _check(ablation, sweeps)
        shown[ablation] = shown_sweep(sweeps)
    made = overview(shown, themes)
    markdown = markdown_templates().get_template("overview.md").render(overview=made)
    html = html_templates().get_template("overview.html").render(overview=made)
    write_whole(folder / "index.md", markdown.encode())
    write_whole(folder / "index.html", html.encode())
    return folder / "index.html"


def write_whole(path: Path, content: bytes) -> bool:
    """Write a file atomically, so that a reader gets either the old bytes or the new ones.

    Returns:
        True if the file changed.

    Raises:
        OSError: if it cannot be written; the old file is then unchanged.
    """
    if path.is_file() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name[:80]}.{secrets.token_hex(4)}.tmp")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return True


def _remove_stale(folder: Path, suffixes: Collection[str], keep: Collection[str]) -> None:
    """Remove files with these suffixes, except those in `keep`."""
    for path in sorted(folder.glob("*")):
        if path.suffix in suffixes and path.name not in keep and not path.name.startswith("."):
            path.unlink()


def _check(ablation: str, sweeps: Sequence[Sweep]) -> None:
    if not sweeps:
        raise FrameError(f"ablation {ablation!r} has no sweep to report.")
    for sweep in sweeps:
        if sweep.about.ablation != ablation:
            raise FrameError(f"this sweep is of {sweep.about.ablation!r}, not of {ablation!r}.")
    scales = [sweep.about.scale for sweep in sweeps]
    for name in scales:
        if scales.count(name) > 1:
            raise FrameError(f"ablation {ablation!r} has {scales.count(name)} sweeps at {name!r}.")


def _content(sweeps: Sequence[Sweep], shown: Sweep) -> dict[str, bytes]:
    """Return file name -> bytes, the page last."""
    made = page(shown.in_order, [sweep.about.scale for sweep in sweeps if len(sweep.results)])
    # Rows of every scale, in a fixed order that does not depend on the store.
    frames = [
        with_axes(sweep.about, sweep.in_order.results) for sweep in sweeps if len(sweep.results)
    ]
    rows = pd.concat(frames or [sweeps[0].results], ignore_index=True)
    texts = {"results.csv": frame_to_csv(rows)}
    for table in made.all_tables:
        texts[f"tables/{slug(table.name)}.csv"] = to_csv(table)
        texts[f"tables/{slug(table.name)}.tex"] = to_latex(table)
    texts |= {f"figures/{drawing.name}.svg": drawing.svg for drawing in made.all_drawings}
    # With a single scale, include `about`, so that the page can be rebuilt from these two files.
    about = shown.about if len(frames) == 1 else None
    content = {
        "results.parquet": to_parquet_bytes(rows, about),
        "curves.parquet": to_parquet_bytes(shown.in_order.curves),
    }
    content |= {name: text.encode() for name, text in texts.items()}
    return content | {
        "report.md": markdown_templates().get_template("report.md").render(page=made).encode(),
        "index.html": html_templates().get_template("report.html").render(page=made).encode(),
    }
