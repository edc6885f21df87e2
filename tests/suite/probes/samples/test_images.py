"""Test the pictures of vision models: values come from the model; absent parts give no picture."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import Architecture, ModelSpec, build_model, mixer_class
from bakeoff.suite.probes.samples.collect import looks_for, position_matrices, samples_of
from bakeoff.suite.probes.samples.vision import (
    NUM_FILTERS,
    chosen_images,
    first_filters,
    images,
    patch_attention,
    position_grids,
    rollout,
)
from bakeoff.suite.schema import Sample
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Batch, Split, Task

TASK = build_task("fashion_mnist_images", 784)
SIDE = 28


def vit(mixer: str = "attention", **changes: Any) -> Architecture:
    """Return a small untrained ViT with 7 x 7 patches."""
    torch.manual_seed(0)
    fields: dict[str, Any] = {
        "architecture": "vit",
        "mixer": mixer,
        "knobs": {},
        "position": "learned",
        "dim": 16,
        "depth": 3,
        "length": SIDE**2,
        "input_kind": "image",
        "input_size": 1,
        "grid": (SIDE, SIDE),
        "output_size": 10,
    }
    return build_model(ModelSpec(**(fields | changes))).eval()


def values(sample: Sample) -> np.ndarray:
    """Return the decoded values of a sample, `[pictures, rows, columns, channels]`."""
    levels = np.frombuffer(base64.b64decode(sample.levels), dtype=np.uint8) / 255
    shares = levels.reshape(sample.num_rows, *sample.picture)
    return sample.low + (sample.high - sample.low) * shares


def tokens_in(model: Any, example: Batch) -> Tensor:
    """Return the input of the first block, recomputed independently."""
    image = example.inputs["inputs"][0, ..., 0]
    cut = [
        image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4].flatten()
        for row in range(7)
        for column in range(7)
    ]
    x = model.embedding.map(torch.stack(cut))
    if model.config.pooling == "class_token":
        x = torch.cat([model.class_token.vector[None], x])
    return x + model.trunk.position.table  # type: ignore[no-any-return]


def weights_of(model: Any, example: Batch) -> list[np.ndarray]:
    """Return `[heads, tokens, tokens]` for every layer by running the blocks one by one."""
    x, found = tokens_in(model, example)[None], []
    for block in model.trunk.blocks:
        found.append(block.mixer.attention_weights(block.mixer_norm(x))[0].double().numpy())
        x = block(x)
    return found


def slow_rollout(layers: list[np.ndarray]) -> np.ndarray:
    """Return the attention rollout of Abnar and Zuidema 2020, section 3, in plain loops."""
    size = len(layers[0])
    joined = [[1.0 if i == j else 0.0 for j in range(size)] for i in range(size)]
    for layer in layers:
        mixed = [[(layer[i, j] + (i == j)) / 2 for j in range(size)] for i in range(size)]
        normed = [[value / sum(row) for value in row] for row in mixed]
        joined = [
            [sum(normed[i][k] * joined[k][j] for k in range(size)) for j in range(size)]
            for i in range(size)
        ]
    return np.array(joined)


def test_rollout_is_the_product_of_the_layers_with_what_passes_by() -> None:
    layers = [torch.rand(5, 5, dtype=torch.float64).softmax(-1) for _ in range(4)]
    layers[2] = layers[2] * 0.7  # a sink takes the rest, so rows are renormalised
    found = rollout(layers)
    np.testing.assert_allclose(found, slow_rollout([each.numpy() for each in layers]), atol=1e-12)
    np.testing.assert_allclose(found.sum(-1), 1.0)
    swapped = rollout(layers[::-1])
    assert not torch.allclose(found, swapped)  # layers do not commute


@pytest.mark.parametrize("pooling", ["class_token", "mean"])
def test_attention_over_patches_is_that_of_the_reader_of_the_head(pooling: str) -> None:
    model = vit(settings={"pooling": pooling})
    with torch.no_grad():
        last, rolled = patch_attention(model, TASK)
        every = [weights_of(model, example) for example in chosen_images(TASK)]
    assert (last.title, rolled.title) == ("last layer", "rollout")
    assert last.picture == rolled.picture == (7, 7, 1)
    for place, layers in enumerate(every):
        means = [layer.mean(axis=0) for layer in layers]
        for sample, whole in ((last, means[-1]), (rolled, slow_rollout(means))):
            row = whole[0, 1:] if pooling == "class_token" else whole.mean(axis=0)
            shown = values(sample)[place].reshape(-1)
            np.testing.assert_allclose(shown, row, atol=sample.high / 255)


def test_the_images_are_the_first_of_the_first_three_classes_in_their_places() -> None:
    chosen = chosen_images(TASK)
    every = list(TASK.held_out("validation", 1))
    for label, example in enumerate(chosen):
        first = next(one for one in every if int(one.targets) == label)
        assert torch.equal(example.inputs["inputs"], first.inputs["inputs"])
    (shown,) = images(vit(), TASK)
    assert (shown.num_rows, shown.picture) == (3, (SIDE, SIDE, 1))
    pixels = torch.cat([one.inputs["inputs"] for one in chosen]).numpy()
    for picture, read in zip(values(shown), pixels, strict=True):
        scaled = (read - read.min()) / (read.max() - read.min())
        np.testing.assert_allclose(picture, scaled, atol=1 / 255)


class Coloured(Task):
    """Images `[90, 60, 3]` of two classes; the task declares their mean and deviation."""

    name = "coloured"
    architecture = "vit"
    asks_for = "class"
    input_kind = "image"
    input_size = 3
    grid = (90, 60)
    output_size = 2
    pixel_mean: ClassVar[tuple[float, ...]] = (0.5, 0.25, 0.0)
    pixel_standard_deviation: ClassVar[tuple[float, ...]] = (0.5, 0.25, 1.0)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        raise NotImplementedError

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        assert split == "validation"
        read = torch.zeros(4, 90, 60, 3)
        read[2, :45] = torch.tensor([1.0, -1.0, 0.5])
        yield Batch(inputs={"inputs": read}, targets=torch.tensor([1, 1, 0, 0]))


def test_known_pixels_are_shown_as_they_were_and_large_images_smaller() -> None:
    (shown,) = images(vit(), Coloured(5400))
    assert (shown.title, shown.num_rows, shown.picture) == ("pixels", 2, (45, 30, 3))
    of_first_class, other = values(shown)
    np.testing.assert_allclose(of_first_class[:22, 0], [[1.0, 0.0, 0.5]] * 22, atol=1 / 255)
    np.testing.assert_allclose(of_first_class[23:, 0], [[0.5, 0.25, 0.0]] * 22, atol=1 / 255)
    np.testing.assert_allclose(other[:, 3], [[0.5, 0.25, 0.0]] * 45, atol=1 / 255)


def test_positions_are_compared_on_the_grid_without_the_class_token() -> None:
    model: Any = vit()
    (shown,) = position_grids(model, TASK)
    assert (shown.num_rows, shown.picture) == (49, (7, 7, 1))
    table = model.trunk.position.table.detach().double().numpy()
    for place in (0, 1, 10, 48):
        for other in range(49):
            one, two = table[1 + place], table[1 + other]
            cosine = one @ two / np.linalg.norm(one) / np.linalg.norm(two)
            assert abs(values(shown)[place, other // 7, other % 7, 0] - cosine) < 1 / 100
    assert position_matrices(model, TASK) == []  # drawn instead of the flat matrix


def test_of_a_fine_grid_some_places_are_compared_with_all() -> None:
    model: Any = vit(settings={"patch": 2, "pooling": "mean"}, position="sinusoidal")
    (shown,) = position_grids(model, TASK)
    assert (shown.num_rows, shown.picture) == (64, (14, 14, 1))
    lines = [0, 2, 4, 6, 7, 9, 11, 13]
    for place, picture in enumerate(values(shown)):
        row, column = lines[place // 8], lines[place % 8]
        assert picture[row, column, 0] == pytest.approx(1.0, abs=0.01)


def test_a_very_fine_grid_stays_small() -> None:
    (shown,) = position_grids(vit(settings={"patch": 1}, position="sinusoidal"), TASK)
    assert (shown.num_rows, shown.picture) == (16, (28, 28, 1))


@pytest.mark.parametrize("position", ["none", "rope", "t5"])
def test_positions_without_vectors_have_no_grid(position: str) -> None:
    assert position_grids(vit(position=position), TASK) == []


def test_filters_of_patches_are_principal_components() -> None:
    """Recover three patterns of decreasing size from 32 filters, in order."""
    model: Any = vit(dim=32)
    patterns = np.linalg.qr(np.random.default_rng(0).normal(size=(16, 16)))[0][:3]
    sizes = np.random.default_rng(1).normal(size=(32, 3)) * [9.0, 3.0, 1.0]
    sizes = np.linalg.qr(sizes - sizes.mean(axis=0))[0] * [9.0, 3.0, 1.0]
    with torch.no_grad():
        model.embedding.map.weight.copy_(torch.tensor(sizes @ patterns + 5.0))
    (shown,) = first_filters(model, TASK)
    assert (shown.title, shown.picture) == ("principal components", (4, 4, 1))
    assert shown.num_rows == NUM_FILTERS
    assert shown.row_words[:4] == ("89 %", "10 %", "1 %", "0 %")
    for pattern, found in zip(patterns, values(shown), strict=False):
        largest = pattern[np.abs(pattern).argmax()]
        np.testing.assert_allclose(found.reshape(-1), pattern / largest, atol=0.02)


class WithStem(nn.Module):
    """A model with only the parts and knobs that `first_filters` reads."""

    config: Any = None

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.inside = nn.Conv2d(8, 8, 3)  # 8 input channels: it does not read pixels
        # a depthwise convolution does not count either
        self.depthwise = nn.Conv2d(3, 3, 3, groups=3)
        self.stem = conv


def test_kernels_of_a_convolution_are_shown_as_they_are_the_largest_first() -> None:
    conv = nn.Conv2d(1, 20, 3, stride=2)
    with torch.no_grad():
        conv.weight.copy_(torch.arange(1.0, 21)[:, None, None, None] * torch.ones(1, 1, 3, 3))
        conv.weight[7, 0, 1, 2] = -100.0
    stem: Any = WithStem(conv)
    (shown,) = first_filters(stem, TASK)
    assert (shown.title, shown.num_rows, shown.picture) == ("kernels", 16, (3, 3, 1))
    first, *others = values(shown)
    assert first[1, 2, 0] == pytest.approx(-1.0, abs=0.01)
    np.testing.assert_allclose(first[0, 0, 0], 0.08, atol=0.01)
    for kernel in others:
        np.testing.assert_allclose(kernel, 1.0, atol=0.01)


def test_colours_of_a_kernel_stay_where_they_are() -> None:
    conv = nn.Conv2d(3, 2, 2)
    nn.init.zeros_(conv.weight)
    with torch.no_grad():
        conv.weight[0, 1, 0, 1] = 4.0  # green, top right
    stem: Any = WithStem(conv)
    (shown,) = first_filters(stem, Coloured(5400))
    green, nothing = values(shown)
    assert shown.picture == (2, 2, 3)
    np.testing.assert_allclose(green[0, 1], [0.0, 1.0, 0.0], atol=0.01)
    np.testing.assert_allclose(nothing, 0.0, atol=0.01)


def test_large_filters_are_made_smaller() -> None:
    conv = nn.Conv2d(1, 2, 28)
    with torch.no_grad():
        conv.weight[0] = torch.tensor([[1.0, -1.0]]).repeat_interleave(14, dim=1)
    stem: Any = WithStem(conv)
    (shown,) = first_filters(stem, TASK)
    assert shown.picture == (14, 14, 1)
    np.testing.assert_allclose(values(shown)[0, :, :, 0], [[1.0] * 7 + [-1.0] * 7] * 14, atol=0.01)


@pytest.mark.parametrize(
    ("mixer", "has_last", "has_rollout"),
    [
        ("attention", True, True),
        ("local_attention", True, True),
        ("grid_conv", False, False),
        ("linear_transformer", False, False),
        ("grid_conv*2+attention", True, False),
        ("attention*2+grid_conv", False, False),
    ],
)
def test_only_layers_that_have_weights_show_some(
    mixer: str, has_last: bool, has_rollout: bool
) -> None:
    settings = {"pooling": "mean"}
    with torch.no_grad():
        titles = [each.title for each in patch_attention(vit(mixer, settings=settings), TASK)]
    assert titles == ["last layer"] * has_last + ["rollout"] * has_rollout


def test_without_sums_around_the_mixers_there_is_no_rollout() -> None:
    with torch.no_grad():
        found = patch_attention(vit(settings={"has_residual": False}), TASK)
    assert [each.title for each in found] == ["last layer"]


def test_weights_of_windows_are_not_laid_over_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = mixer_class("attention")
    monkeypatch.setattr(
        attention, "attention_weights", lambda self, x, *rest: torch.ones(8, 4, 7, 7) / 7
    )
    assert patch_attention(vit(), TASK) == []


def test_a_model_of_no_image_leaves_no_picture() -> None:
    task = build_task("fashion_mnist_patches", 49)
    model = vit(
        architecture="classifier", length=49, input_kind="vectors", input_size=16, grid=None
    )
    assert model.patch_grid() is None
    assert images not in looks_for(task)
    assert patch_attention(model, task) == position_grids(model, task) == []


def test_all_looks_together_stay_small_and_disturb_nothing() -> None:
    model = vit(settings={"patch": 2}, dim=32)
    model.train()
    before = torch.get_rng_state()
    found = samples_of(model, TASK, 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training
    kinds = {each.kind for each in found}
    assert {"images", "patch_attention", "grid_positions", "filters"} <= kinds
    assert len(json.dumps([asdict(each) for each in found])) < 80_000
    model.eval()
    with torch.no_grad():
        assert list(found) == [each for look in looks_for(TASK) for each in look(model, TASK)]
