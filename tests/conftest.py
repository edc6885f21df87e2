"""In which order do test files run, and what does collecting garbage cost between them?"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

import pytest

_OTHERS_BETWEEN = 2  # files, between two that start a Ray


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that wait for a Ray run beside files that compute, from the start, not at the end."""
    files: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.nodeid.partition("::")[0]].append(item)
    waiting = [file for file in files.values() if any(i.get_closest_marker("ray") for i in file)]
    computing = [file for file in files.values() if file not in waiting]
    items[:] = chain.from_iterable(_interleaved(_longest_first(waiting), _longest_first(computing)))


def pytest_collection_finish() -> None:
    """What stands now stays: a trial that collects garbage need not look through 10,000 tests."""
    gc.collect()
    gc.freeze()


def _longest_first(files: Sequence[list[pytest.Item]]) -> list[list[pytest.Item]]:
    return sorted(files, key=len, reverse=True)


def _interleaved(
    waiting: Sequence[list[pytest.Item]], computing: Sequence[list[pytest.Item]]
) -> Iterator[list[pytest.Item]]:
    groups = [computing[i : i + _OTHERS_BETWEEN] for i in range(0, len(computing), _OTHERS_BETWEEN)]
    for file, others in zip_longest(waiting, groups):
        yield from [file] if file else []
        yield from others or []
