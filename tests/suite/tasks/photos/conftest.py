"""Fixtures with archives of photos in a separate folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bakeoff.suite.tasks import data_files
from bakeoff.suite.tasks.photos.coco import CocoCaptions
from bakeoff.suite.tasks.photos.flickr8k import Flickr8kCaptions
from tests.suite.tasks.photos.made_photos import (
    Put,
    coco_photos,
    coco_text,
    coco_told,
    flickr_photos,
    flickr_text,
    forget,
    packed,
    putting,
)


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Put]:
    """Yield a function that replaces the published archives (see `putting`), with empty caches."""
    monkeypatch.setenv(data_files.FETCHED_FOLDER_VARIABLE, str(tmp_path))
    forget()
    yield putting(monkeypatch)
    forget()


@pytest.fixture
def both(put: Put) -> None:
    """Put both complete sets in place."""
    put(Flickr8kCaptions, packed(flickr_text()), packed(flickr_photos()))
    put(CocoCaptions, packed(coco_text(coco_told())), packed(coco_photos()))
