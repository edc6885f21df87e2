"""Test folders of images of the user's own: the splits, odd images, odd folders."""

from __future__ import annotations

import io
import os
import shutil
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from bakeoff.suite.execution.run_task import run_task
from bakeoff.suite.tasks.own.data import files_of, looked_for_in
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import Task, TaskError
from tests.suite.tasks.own.laws import another_process_sees_the_same, inputs_of, keep, small_model

Colours = Mapping[str, tuple[int, int, int]]
DRAWN = np.random.default_rng(0)
SIDE = 8
SPLITS = ("training", "validation", "test")
COLOURS: Colours = {"cats": (200, 30, 30), "dogs": (30, 30, 200)}


@pytest.fixture(autouse=True)
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "own"


def noisy(colour: tuple[int, int, int], drawn: np.random.Generator) -> Image.Image:
    pixels = np.array(colour) + drawn.integers(-25, 25, (SIDE, SIDE, 3))
    return Image.fromarray(pixels.astype(np.uint8))


def filled(folder: Path, count: int = 100, names: Colours = COLOURS) -> Path:
    """Write images of each class into a folder; equal paths have equal images."""
    for name, colour in names.items():
        drawn = np.random.default_rng(zlib.crc32(f"{folder.name}/{name}".encode()))
        (folder / name).mkdir(parents=True)
        for number in range(count):
            noisy(colour, drawn).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return filled(tmp_path / "photos")


def spelled(path: Path, **fields: object) -> str:
    given = {"size": SIDE, **fields}
    return f'ImageFolder("{path}", {", ".join(f"{k}={v!r}" for k, v in given.items())})'


def pixels_of(task: Task) -> torch.Tensor:
    """Return the pixels of all splits, from 0 to 255."""
    batches = [task.training_batch(0, task.num_training_examples() or 0, 0)]
    for split in ("validation", "test"):
        batches += task.held_out(split, 64)  # type: ignore[arg-type]
    found = torch.cat([batch.inputs["inputs"] for batch in batches])
    mean, deviation = map(torch.tensor, (task.pixel_mean, task.pixel_standard_deviation))
    return ((found * deviation + mean) * 255).round().to(torch.uint8)


def read(
    photos: Path, content: Image.Image, name: str = "odd.png", **options: object
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return the pixels that the task has of an image, which is added in a nested folder."""
    folder = photos / "cats" / "nested"
    folder.mkdir()
    content.save(folder / name, **options)  # type: ignore[arg-type]
    before = {each.numpy().tobytes() for each in pixels_of(build_task(spelled(photos), SIDE**2))}
    shutil.move(folder, photos.parent / "elsewhere")
    with looked_for_in([]):
        after = pixels_of(build_task(spelled(photos), SIDE**2))
    (odd,) = before - {each.numpy().tobytes() for each in after}
    return np.frombuffer(odd, np.uint8).reshape(SIDE, SIDE, 3)


@pytest.mark.whole
def test_a_task_keeps_the_laws(photos: Path) -> None:
    task = keep(spelled(photos), SIDE**2)
    assert (task.architecture, task.grid, task.input_size) == ("vit", (SIDE, SIDE), 3)
    assert another_process_sees_the_same(spelled(photos), SIDE**2)
    found = [inputs_of(task, name) for name in SPLITS]
    assert sum(map(len, found)) == 200
    assert not found[0] & found[1] | found[0] & found[2] | found[1] & found[2]
    wanted = {np.asarray(Image.open(file)).tobytes() for file in files_of(spelled(photos))}
    assert {each.numpy().tobytes() for each in pixels_of(task)} == wanted
    assert "2 classes: cats (100), dogs (100)" in task.source.title


def test_images_are_scaled_and_may_be_grey(photos: Path) -> None:
    task = keep(spelled(photos, size=4, is_grey=True), 16)
    assert (task.input_size, task.grid) == (1, (4, 4))
    assert len(task.floors) == 5


def test_a_model_learns_the_classes(photos: Path) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE * 3, 2))
    found = run_task(
        model, task=spelled(photos), steps=30, batch=16, learning_rate=0.01, progress=False
    )
    assert found.value == 1.0
    vit = small_model(
        build_task(spelled(photos), SIDE**2),
        mixer="attention",
        position="learned_2d",
        dim=16,
        depth=1,
        settings={"patch": 4},
    )
    run_task(vit, task=spelled(photos), steps=2, batch=8, progress=False)


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Training", "validation", "Test")])
def test_folders_of_splits_are_used(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name, count in zip(names, (30, 10, 20), strict=True):
        filled(tmp_path / "photos" / name, count)
    task = build_task(spelled(tmp_path / "photos"), SIDE**2)
    assert [len(inputs_of(task, name)) for name in SPLITS] == [60, 20, 40]
    wanted = {
        np.asarray(Image.open(file)).tobytes()
        for file in (tmp_path / "photos" / names[2]).rglob("*.png")
    }
    assert {each.numpy().tobytes() for each in pixels_of(task)[80:]} == wanted


def test_validation_is_taken_from_training_if_no_folder_is_for_it(tmp_path: Path) -> None:
    filled(tmp_path / "photos" / "train", 100)
    filled(tmp_path / "photos" / "test", 10)
    task = build_task(spelled(tmp_path / "photos"), SIDE**2)
    training, validation, test = (len(inputs_of(task, name)) for name in SPLITS)
    assert test == 20
    assert training + validation == 200
    assert 10 <= validation <= 35


def test_a_class_may_be_named_as_a_split(tmp_path: Path) -> None:
    filled(tmp_path / "photos", names={"train": (200, 30, 30), "plane": (30, 30, 200)})
    title = task_class(spelled(tmp_path / "photos")).source.title
    assert "2 classes: plane (100), train (100)" in title


def test_what_is_not_an_image_is_ignored(photos: Path) -> None:
    (photos / ".hidden").mkdir()
    (photos / "__MACOSX").mkdir()
    (photos / "cats" / ".DS_Store").write_bytes(b"x")
    (photos / "cats" / "._0.png").write_bytes(b"x")
    (photos / "cats" / "Thumbs.db").write_bytes(b"x")
    (photos / "Desktop.ini").write_bytes(b"x")
    found = task_class(spelled(photos)).source.title
    assert "200 images" in found
    assert "ignored" not in found


def test_other_files_are_counted(photos: Path) -> None:
    (photos / "cats" / "notes.txt").write_bytes(b"x")
    (photos / "labels.csv").write_bytes(b"x")
    found = task_class(spelled(photos)).source.title
    assert "2 other files are ignored, as labels.csv" in found


def test_nested_and_linked_folders_are_read(photos: Path) -> None:
    outside = filled(photos.parent / "more", 60)
    (photos / "cats" / "deep" / "deeper").mkdir(parents=True)
    noisy((200, 30, 30), DRAWN).save(photos / "cats" / "deep" / "deeper" / "A.JPG")
    (photos / "cats" / "linked").symlink_to(outside / "cats")
    (photos / "birds").symlink_to(outside / "dogs")
    assert len(files_of(spelled(photos))) == 321
    title = task_class(spelled(photos)).source.title
    assert "3 classes: birds (60), cats (161), dogs (100)" in title


def test_names_of_classes_may_be_any_bytes(photos: Path) -> None:
    (photos / "cats").rename(photos / os.fsdecode(b"caf\xe9\n"))
    title = task_class(spelled(photos)).source.title
    assert r"caf\udce9\n (100), dogs (100)" in title


# Odd images that are read


def test_an_image_is_turned_as_its_metadata_say(photos: Path) -> None:
    image = Image.new("RGB", (SIDE, SIDE), "black")
    image.paste("white", (0, 0, SIDE, SIDE // 2))  # the upper half
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise
    found = read(photos, image, exif=exif)
    assert found[:, SIDE // 2 :].min() > 200
    assert found[:, : SIDE // 2].max() < 50


def test_damaged_metadata_do_not_matter(photos: Path) -> None:
    assert read(photos, Image.new("RGB", (9, 9), "lime"), exif=b"Exif\0\0II*\0\xff\xff").mean() > 80


def test_a_transparent_image_is_put_on_white(photos: Path) -> None:
    image = Image.new("RGBA", (SIDE, SIDE), (0, 0, 0, 0))
    image.paste((0, 128, 0, 255), (0, 0, SIDE, SIDE // 2))
    found = read(photos, image)
    assert (found[-1] == 255).all()
    assert (found[0] == [0, 128, 0]).all()


def test_a_palette_with_a_transparent_colour_is_put_on_white(photos: Path) -> None:
    image = Image.new("P", (SIDE, SIDE), 0)
    image.putpalette([0, 0, 0, 255, 0, 0])
    image.paste(1, (0, 0, SIDE, 4))
    found = read(photos, image, transparency=0)
    assert (found[-1] == 255).all()
    assert (found[0] == [255, 0, 0]).all()


def test_sixteen_bits_become_eight(photos: Path) -> None:
    values = np.linspace(0, 65_535, SIDE).astype(np.uint16)
    found = read(photos, Image.fromarray(np.tile(values, (SIDE, 1))))
    assert np.abs(found[0, :, 0].astype(int) - values // 257).max() <= 1


@pytest.mark.parametrize("side", [1, 3, 3_000])
def test_tiny_and_large_images_are_scaled(photos: Path, side: int) -> None:
    found = read(photos, Image.new("RGB", (side, 2 * side), (10, 200, 90)), "odd.jpg")
    assert np.abs(found.astype(int) - [10, 200, 90]).max() <= 4


@pytest.mark.parametrize(
    ("mode", "name"), [("1", "a.png"), ("L", "a.tif"), ("LA", "a.png"), ("YCbCr", "a.jpg")]
)
def test_other_modes_are_read(photos: Path, mode: str, name: str) -> None:
    found = read(photos, Image.new("RGB", (9, 9), "white").convert(mode), name)
    assert found.min() >= 250


def test_the_colours_of_print_are_converted(photos: Path) -> None:
    found = read(photos, Image.new("CMYK", (SIDE, SIDE), (0, 255, 255, 0)), "a.jpg")
    assert found[..., 0].min() > 200
    assert found[..., 1:].max() < 60


def test_the_first_frame_of_several_is_read(photos: Path) -> None:
    frames = [Image.new("RGB", (SIDE, SIDE), colour) for colour in ("lime", "red", "blue")]
    for name in ("a.gif", "a.png", "a.webp", "a.tif"):
        frames[0].save(photos / "dogs" / name, save_all=True, append_images=frames[1:])
    kind = task_class(spelled(photos))
    assert "4 have several frames, of which the first is read" in kind.source.title
    greens = (pixels_of(kind(SIDE**2)).float().mean(dim=(1, 2)) - torch.tensor([0, 255, 0])).abs()
    assert (greens.amax(dim=1) < 12).sum() == 4


# Odd images that are refused


def _bomb(width: int, height: int) -> bytes:
    """Return a small PNG file that says to hold a large image."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", b"x")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def _saved(image: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


JPEG = _saved(Image.fromarray(DRAWN.integers(0, 256, (99, 99, 3)).astype(np.uint8)), "JPEG")
PNG = _saved(Image.fromarray(DRAWN.integers(0, 256, (99, 99, 3)).astype(np.uint8)), "PNG")
BAD: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.png", b"", "is not an image that can be read"),
    "text": ("a.jpg", b"hello", "is not an image that can be read"),
    "a cut JPEG": ("a.jpg", JPEG[: len(JPEG) // 2], "cannot be read as an image (image file is"),
    "a cut PNG": ("a.png", PNG[: len(PNG) // 2], "cannot be read as an image"),
    "a broken PNG": ("a.png", PNG[:99] + b"\0" * 999 + PNG[1098:], "cannot be read as an image"),
    "a large bomb": ("a.png", _bomb(10_000, 10_000), "has 10,000 x 10,000 pixels; at most 89,478,"),
    "a huge bomb": ("a.png", _bomb(60_000, 60_000), "has more than 89,478,485 pixels"),
    "32 bits": (
        "a.tif",
        _saved(Image.fromarray(np.ones((9, 9), np.float32)), "TIFF"),
        "has pixels of 32 bits; save it with 8 or 16 bits",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_images_are_refused(name: str, photos: Path, prepared: Path) -> None:
    file, content, sentence = BAD[name]
    (photos / "cats" / file).write_bytes(content)
    with pytest.raises(TaskError) as error:
        task_class(spelled(photos))
    assert str(error.value).startswith(f"{photos / 'cats' / file} {sentence}")
    assert "\n" not in str(error.value)
    assert not [each for each in prepared.iterdir() if each.suffix != ".lock"], "half-written"


def test_all_bad_images_are_counted(photos: Path) -> None:
    for name in ("cats/x.png", "dogs/y.gif", "dogs/z.jpg"):
        (photos / name).write_bytes(b"x")
    with pytest.raises(TaskError, match=r"x\.png is not an image .*, and 2 more files cannot be"):
        task_class(spelled(photos))


# Odd folders


def _no_image(photos: Path) -> None:
    (photos / "birds" / "empty").mkdir(parents=True)


def _only_texts(photos: Path) -> None:
    (photos / "birds").mkdir()
    (photos / "birds" / "a.txt").write_text("x")


def _image_outside(photos: Path) -> None:
    noisy((99, 99, 99), DRAWN).save(photos / "cover.png")


def _cycle(photos: Path) -> None:
    (photos / "cats" / "loop").symlink_to(photos)


def _link_to_itself(photos: Path) -> None:
    (photos / "cats" / "loop").symlink_to(photos / "cats")


def _broken_link(photos: Path) -> None:
    (photos / "cats" / "gone.png").symlink_to(photos / "nothing.png")


def _one_class(photos: Path) -> None:
    shutil.rmtree(photos / "cats")


def _few(photos: Path) -> None:
    for file in list((photos / "cats").iterdir())[5:] + list((photos / "dogs").iterdir())[5:]:
        file.unlink()


def _no_folder(photos: Path) -> None:
    shutil.rmtree(photos)
    photos.mkdir()


def _file(photos: Path) -> None:
    shutil.rmtree(photos)
    photos.write_bytes(PNG)


def _in_splits(photos: Path, *names: str) -> None:
    shutil.rmtree(photos)
    for name in names:
        filled(photos / name, 20)


def _class_outside_of_training(photos: Path) -> None:
    _in_splits(photos, "train", "val", "test")
    filled(photos / "test", 3, {"birds": (99, 99, 99)})


def _no_classes_in_a_split(photos: Path) -> None:
    _in_splits(photos, "train", "test")
    shutil.rmtree(photos / "test" / "cats")
    shutil.rmtree(photos / "test" / "dogs")


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a class without images": (_no_image, "birds has no image; the suffixes of images are .bmp"),
    "a class of texts": (_only_texts, "birds has no image"),
    "an image beside the classes": (_image_outside, "cover.png must be in the folder of a class"),
    "a cycle": (_cycle, "loop is a link to a folder that contains it"),
    "a link to itself": (_link_to_itself, "loop is a link to a folder that contains it"),
    "a broken link": (_broken_link, "gone.png is a link to a file that does not exist"),
    "one class": (_one_class, "has one class, 'dogs'; at least two are needed"),
    "few images": (_few, "each of the three splits needs at least 10"),
    "an empty folder": (_no_folder, "has no folder; it needs one folder of images for each class"),
    "a file": (_file, "is a file; give a folder with one folder of images for each class"),
    "nothing": (shutil.rmtree, "does not exist; give a folder"),
    "no test part": (lambda path: _in_splits(path, "train", "val"), "has no folder for the test"),
    "two folders for a split": (
        lambda path: _in_splits(path, "train", "val", "valid", "test"),
        "has two folders for one split",
    ),
    "a class outside of training": (
        _class_outside_of_training,
        "the class 'birds' has no example in the training part, but 3 in others",
    ),
    "a split without classes": (_no_classes_in_a_split, "test has no folder; it needs one folder"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_odd_folders_are_refused(name: str, photos: Path, prepared: Path) -> None:
    change, sentence = REFUSED[name]
    change(photos)
    with pytest.raises(TaskError) as error:
        task_class(spelled(photos))
    assert sentence in str(error.value)
    assert str(photos) in str(error.value)
    assert "\n" not in str(error.value)
    held = list(prepared.iterdir()) if prepared.exists() else []
    assert not [each for each in held if each.suffix != ".lock"], "half-written"


def test_an_unreadable_file_is_named(photos: Path) -> None:
    (photos / "cats" / "odd.png").symlink_to("/proc/self/mem")  # even root cannot read its start
    with pytest.raises(TaskError, match=r"odd\.png cannot be read \(Input/output error\)"):
        task_class(spelled(photos))
