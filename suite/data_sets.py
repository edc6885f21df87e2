"""`bakeoff data`: the data sets that ship with the suite, their licences and digests."""

from __future__ import annotations

from suite.exit_codes import DONE, USAGE
from suite.tasks.registry import data_sources, verify_data
from suite.tasks.task import DataSource


def show(*, verify: bool) -> int:
    """Print them, or check every file against its digest; returns the exit code."""
    if not verify:
        for source in data_sources():
            print(_described(source))
        return DONE
    problems = [(source, problem) for source, problem in verify_data()]
    for source, problem in problems:
        print(f"{source.name}: {problem or 'as it should be'}")
    return USAGE if any(problem for _, problem in problems) else DONE


def _described(source: DataSource) -> str:
    return (
        f"{source.name}: {source.title}\n  licence  {source.licence}\n  origin   {source.origin}\n"
        f"  file     {source.file}\n  sha256   {source.sha256}"
    )
