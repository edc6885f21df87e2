"""`bakeoff data`: the data sets of the tasks, their licences and digests."""

from __future__ import annotations

from pathlib import Path

from bakeoff.suite.errors import DONE, USAGE
from bakeoff.suite.tasks.data_files import FETCHED_FOLDER_VARIABLE, fetched_folder, is_absent
from bakeoff.suite.tasks.public.download import fetch
from bakeoff.suite.tasks.public.sets import PUBLIC_SETS, PublicSet, public_set
from bakeoff.suite.tasks.registry import data_sources, verify_data
from bakeoff.suite.tasks.task import DataSource, TaskError


def show() -> int:
    """Print the data sets of tasks, then the others; return the exit code."""
    sources = data_sources()
    for source in sources:
        note = f"not downloaded yet; run `bakeoff data fetch {source.name}`"
        files = [
            (
                each.origin,
                each.file or "generated; the digest is computed from the definition",
                _digest(each),
            )
            for each in source.files
        ]
        print(_entry(source, files, note if is_absent(source) else ""))
    behind_tasks = {source.name for source in sources}
    for public in PUBLIC_SETS.values():
        if public.name not in behind_tasks:
            note = f"no task reads it yet; download it with `bakeoff data fetch {public.name}`"
            files = [(each.url, each.file, _digest(each)) for each in public.files]
            print(_entry(public, files, note))
    return DONE


def verify() -> int:
    """Check every file against its digest; return the exit code."""
    problems = verify_data()
    for source, problem in problems:
        print(f"{source.name}: {problem or 'verified'}")
    return USAGE if any(problem and not is_absent(source) for source, problem in problems) else DONE


def fetch_by_name(name: str | None, folder: Path | None) -> int:
    """Fetch a public data set; return the exit code.

    Raises:
        TaskError: If there is no such data set, or if the digest is wrong.
        bakeoff.suite.tasks.public.download.FetchUnavailable: If it cannot be fetched.
    """
    if name is None:
        raise TaskError(f"bakeoff data fetch NAME: NAME is one of {', '.join(PUBLIC_SETS)}")
    chosen = folder or fetched_folder()
    fetch(public_set(name), chosen)
    if chosen.absolute() != fetched_folder().absolute():
        print(f"tasks look there if {FETCHED_FOLDER_VARIABLE}={chosen.absolute()} is set")
    return DONE


def _entry(source: DataSource | PublicSet, files: list[tuple[str, str, str]], note: str) -> str:
    """Return an entry; `files` holds the origin, the name and the digest line of each."""
    lines = [f"{source.name}: {source.title}", f"  licence  {source.licence}"]
    for origin, file, digest in files:
        told = f"{file} ({note})" if note else file
        lines += [f"  origin   {origin}", f"  file     {told}", digest]
    return "\n".join(lines)


def _digest(each: DataSource | PublicSet) -> str:
    """Return the line with the digest; an MD5 if the publisher recorded no other digest."""
    if each.md5:
        return f"  md5      {each.md5}"
    return f"  sha256   {each.sha256 or 'not recorded'}"
