"""Check that LeViT equals those of timm and `transformers` with the same parameters.

Every parameter and every statistic of a batch norm is moved away from its initial value and copied
by name; timm's images are wider than high.
The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import Architecture, ModelSpec, build_model
from bakeoff.models.architectures.levit import LeViT
from tests.models.full_size import full_size
from tests.parity.without_torchvision import timm

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the packages raise warnings about their own parts
]

DIMS, DEPTHS, HEADS, KEY_DIM, CLASSES = (32, 48, 64), (1, 2, 1), (2, 3, 4), 8, 5
QUERY, KEY_VALUE = ".query.", ".key_value."


def ours(grid: tuple[int, int]) -> LeViT:
    """Build our model with the sizes above."""
    sizes = {"dims": DIMS, "depths": DEPTHS, "heads": HEADS}
    return built(
        ModelSpec(
            architecture="levit",
            length=grid[0] * grid[1],
            input_kind="image",
            input_size=3,
            grid=grid,
            output_size=CLASSES,
            settings={
                "key_dim": KEY_DIM,
                "halvings": 4,
                **{name: "-".join(map(str, each)) for name, each in sizes.items()},
            },
        )
    )


def built(spec: ModelSpec, *, by: float = 0.3, number: int = 16) -> LeViT:
    """Build in float64 and evaluation mode with all values moved; use the statistics of images."""
    torch.manual_seed(0)
    model, grid = build_model(spec), cast("tuple[int, int]", spec.grid)
    for parameter in model.parameters():
        parameter.data += by * torch.randn_like(parameter)
    norms = [part for part in model.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    for momentum in (1.0, 0.1):  # the first momentum discards the initial statistics
        for norm in norms:
            norm.momentum = momentum
        with torch.no_grad():
            model.double()(images(grid, number=number, seed=2))
    return cast("LeViT", model.eval())


def merged(model: LeViT) -> dict[str, Tensor]:
    """Merge queries, keys and values into one map, head by head, if queries are of all tokens."""
    weights = dict(model.state_dict())
    for name in [name for name in weights if ".branches." in name and QUERY in name]:
        query, other = weights.pop(name), weights.pop(name.replace(QUERY, KEY_VALUE))
        joined = query
        if query.ndim:  # num_batches_tracked is a scalar
            heads = len(query) // model.config.key_dim
            parts = [each.view(heads, -1, *query.shape[1:]) for each in (query, other)]
            joined = torch.cat(parts, dim=1).flatten(0, 1)
        weights[name.replace(QUERY, ".qkv.")] = joined
    return weights


def of_timm(model: LeViT) -> dict[str, Tensor]:
    """Return the model's state under timm's names."""
    found = {}
    for name, tensor in merged(model).items():
        new = re.sub(r"stem\.convs\.(\d)", lambda m: f"stem.conv{int(m[1]) + 1}.linear", name)
        new = re.sub(r"stem\.norms\.(\d)", lambda m: f"stem.conv{int(m[1]) + 1}.bn", new)
        new = re.sub(r"stages\.(\d)\.branches\.(\d+)", _place_in_timm, new)
        new = new.replace("shrink.query", "shrink.q.ln").replace("shrink.key_value", "shrink.kv")
        new = new.replace(".shrink.", ".downsample.attn_downsample.")
        new = new.replace(".output.", ".proj.ln.").replace(".biases", ".attention_biases")
        new = new.replace(".expand.", ".ln1.").replace(".contract.", ".ln2.")
        new = new.replace(".norm.", ".bn.").replace("distillation_head", "head_dist")
        found[re.sub(r"(head\w*)\.([01])", _part_of_head, new)] = tensor
    return found


def _place_in_timm(found: re.Match[str]) -> str:
    """Return the name in timm, where a shrinking attention contains the feed-forward after it."""
    stage, place = int(found[1]), int(found[2]) - (found[1] != "0")
    if place < 0:
        return f"stages.{stage}.downsample.mlp"
    return f"stages.{stage}.blocks.{place // 2}.{('attn', 'mlp')[place % 2]}"


def _part_of_head(found: re.Match[str]) -> str:
    return f"{found[1]}.{('bn', 'linear')[int(found[2])]}"


def theirs_of_timm(model: LeViT, grid: tuple[int, int]) -> Any:
    theirs = (
        timm()
        .models.levit.LevitDistilled(
            img_size=grid,
            num_classes=CLASSES,
            embed_dim=DIMS,
            key_dim=KEY_DIM,
            depth=DEPTHS,
            num_heads=HEADS,
        )
        .double()
    )
    theirs.load_state_dict(of_timm(model))
    return theirs


def of_transformers(model: LeViT) -> dict[str, Tensor]:
    """Return the model's state under the names of `transformers`, with one list of layers per
    stage.

    There a shrinking attention and its feed-forward end the previous stage.
    """
    found = {}
    for name, tensor in merged(model).items():
        new = re.sub(r"stem\.convs\.(\d)", lambda m: f"{_stem(m)}.convolution", name)
        new = re.sub(r"stem\.norms\.(\d)", lambda m: f"{_stem(m)}.batch_norm", new)
        new = re.sub(r"stages\.(\d)\.branches\.(\d+)", _place_in_transformers, new)
        new = re.sub(r"stages\.(\d)\.shrink", _shrink, new)
        new = new.replace(".qkv.", ".queries_keys_values.").replace(".query.", ".queries.")
        new = new.replace(".key_value.", ".keys_values.").replace(".output.", ".projection.")
        new = new.replace(".biases", ".attention_biases").replace(".norm.", ".batch_norm.")
        new = new.replace(".expand.", ".linear_up.").replace(".contract.", ".linear_down.")
        new = new.replace("distillation_head", "classifier_distill").replace("head.", "classifier.")
        new = re.sub(r"^(classifier\w*)\.0", r"\1.batch_norm", new)
        new = re.sub(r"^(classifier\w*)\.1", r"\1.linear", new)
        found[new] = tensor
    return found


def _stem(found: re.Match[str]) -> str:
    return f"levit.patch_embeddings.embedding_layer_{int(found[1]) + 1}"


def _place_in_transformers(found: re.Match[str]) -> str:
    stage, place = int(found[1]), int(found[2]) - (found[1] != "0")
    if place < 0:
        stage, place = stage - 1, 2 * DEPTHS[stage - 1] + 1
    return f"levit.encoder.stages.{stage}.layers.{place}.module"


def _shrink(found: re.Match[str]) -> str:
    before = int(found[1]) - 1
    return f"levit.encoder.stages.{before}.layers.{2 * DEPTHS[before]}"


def images(grid: tuple[int, int], number: int = 3, seed: int = 1) -> Tensor:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(number, *grid, 3, generator=drawn, dtype=torch.float64)


def assert_alike(model: Architecture, theirs: nn.Module, grid: tuple[int, int]) -> None:
    """Compare logits and the gradient with respect to the images, in float64 and in float32."""
    for dtype, within in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        shown = images(grid).to(dtype).requires_grad_()
        found = model.to(dtype)(shown)
        theirs.to(dtype).train()  # drops the cached biases of another precision
        answer = theirs.eval()(shown.permute(0, 3, 1, 2))
        expected = getattr(answer, "logits", answer)
        assert found.std() > 0.3
        torch.testing.assert_close(found, expected, rtol=within, atol=within)
        gradients = [torch.autograd.grad(each.sin().sum(), shown)[0] for each in (found, expected)]
        assert gradients[0].abs().max() > 0.01
        torch.testing.assert_close(*gradients, rtol=within, atol=10 * within)


@pytest.mark.parametrize("grid", [(64, 96), (80, 48)])
def test_it_is_that_of_timm(grid: tuple[int, int]) -> None:
    model = ours(grid)
    theirs = theirs_of_timm(model, grid)
    theirs.eval()
    assert_alike(model, theirs, grid)


def test_in_training_it_answers_twice_and_counts_batches_as_timms() -> None:
    """Compare with the statistics of the batch, which both track in the same way."""
    grid = (64, 96)
    model = ours(grid)
    theirs = theirs_of_timm(model, grid)
    theirs.set_distilled_training()
    model.train()
    theirs.train()
    logits, auxiliary = model(images(grid))
    own, taught = theirs(images(grid).permute(0, 3, 1, 2))
    torch.testing.assert_close(logits, own, rtol=0, atol=1e-8)
    torch.testing.assert_close(auxiliary["distillation"], taught, rtol=0, atol=1e-8)
    assert not torch.allclose(own, taught)
    state = of_timm(model)
    for name, tensor in theirs.state_dict().items():
        torch.testing.assert_close(state[name], tensor, rtol=0, atol=1e-9)


def test_it_is_that_of_transformers() -> None:
    from transformers import LevitConfig, LevitForImageClassificationWithTeacher

    grid = (96, 96)
    model = ours(grid)
    config = LevitConfig(
        image_size=grid[0],
        hidden_sizes=DIMS,
        num_attention_heads=HEADS,
        depths=DEPTHS,
        key_dim=(KEY_DIM,) * 3,
        num_labels=CLASSES,
    )
    theirs = LevitForImageClassificationWithTeacher(config).double()
    theirs.load_state_dict(of_transformers(model))
    assert_alike(model, theirs.eval(), grid)


def test_a_preset_is_the_model_that_timm_calls_so() -> None:
    model = built(full_size("levit_128s"), by=0.05, number=4)
    theirs = timm().create_model("levit_128s").double()
    theirs.load_state_dict(of_timm(model))
    theirs.eval()
    with torch.no_grad():
        found = model(images((224, 224), number=1))
        expected = theirs(images((224, 224), number=1).permute(0, 3, 1, 2))
    assert found.std() > 0.3
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
