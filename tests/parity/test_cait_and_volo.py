"""Check that our CaiT and VOLO, and their mixers, compute the outputs of timm.

All parameters and buffers are moved away from their initial values, so that no zero or one hides a
difference. The tests need the public packages of the extra `bench`; `make parity-test` installs
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelSpec, Outputs, build_mixer, build_model
from bakeoff.models.initialisation import NothingDrawn
from bakeoff.models.stack import Block
from bakeoff.models.vision.class_attention import ClassAttention, ClassBlock
from tests.models.full_size import full_size
from tests.models.small_models import tokens
from tests.parity.without_torchvision import timm

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the package raises warnings about its own parts
]

IMAGES = torch.randn(2, 32, 48, 3, generator=torch.Generator().manual_seed(3)).double()
HEADS, DIM, CLASSES = 4, 16, 5
Pairs = Iterable[tuple[Any, nn.Module]]  # a module of theirs, and ours with the same parameters


def moved(module: nn.Module, spread: float = 0.3) -> Any:
    """Move parameters and statistics from their initial values; variances stay positive."""
    drawn = torch.Generator().manual_seed(7)
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.is_floating_point():
            tensor.data += spread * (2 * torch.rand(tensor.shape, generator=drawn) - 1)
    return module.eval()


def take(pairs: Pairs) -> None:
    """Copy the parameters of each module of ours into the module of theirs."""
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())


def joined(theirs: Any, *ours: Any) -> None:
    """Stack the rows of several of our maps in one map of theirs."""
    theirs.weight.data = torch.cat([each.weight for each in ours])
    if theirs.bias is not None:
        theirs.bias.data = torch.cat([each.bias for each in ours])


def take_mixer(theirs: Any, ours: Any) -> None:
    """Copy the parameters of any attention in this file."""
    theirs.proj.load_state_dict(ours.output.state_dict())
    if hasattr(theirs, "attn"):  # outlook attention
        take([(theirs.v, ours.value), (theirs.attn, ours.weights)])
    elif hasattr(theirs, "qkv"):
        joined(theirs.qkv, ours.query, ours.key, ours.value)
    elif hasattr(theirs, "kv"):
        joined(theirs.kv, ours.key, ours.value)
        joined(theirs.q, ours.query)
    else:
        take([(theirs.q, ours.query), (theirs.k, ours.key), (theirs.v, ours.value)])
    if hasattr(theirs, "proj_l"):
        take([(theirs.proj_l, ours.before), (theirs.proj_w, ours.after)])


def take_block(theirs: Any, ours: Block | ClassBlock) -> None:
    is_class = isinstance(ours, ClassBlock)
    norms = (ours.norm,) if is_class else (cast("Block", ours).mixer_norm,)
    sums = (ours.sum if is_class else cast("Block", ours).mixer_sum, ours.mlp_sum)
    take_mixer(theirs.attn, ours.attention if is_class else cast("Block", ours).mixer)
    mlp = cast("Any", ours.mlp)
    take(
        [
            (theirs.norm1, norms[0]),
            (theirs.norm2, ours.mlp_norm),
            (theirs.mlp.fc1, mlp.expand),
            (theirs.mlp.fc2, mlp.contract),
        ]
    )
    if hasattr(theirs, "gamma_1"):
        theirs.gamma_1.data, theirs.gamma_2.data = (cast("Any", each.scale).data for each in sums)


def take_trunk(theirs: Any, ours: Any, blocks: Iterable[Any], class_blocks: Iterable[Any]) -> None:
    """Copy blocks, positions, class token, norm and head; VOLO's positions lie on a grid."""
    for block, own in zip(blocks, ours.trunk.blocks, strict=True):
        take_block(block, own)
    for block, own in zip(class_blocks, ours.trunk.class_blocks, strict=True):
        take_block(block, own)
    table = ours.trunk.position.vectors(ours.of_tokens().length)
    theirs.pos_embed.data = table.data.reshape(theirs.pos_embed.shape)
    theirs.cls_token.data = ours.class_token.vector.data.reshape(1, 1, -1)
    take([(theirs.norm, ours.trunk.norm), (theirs.head, ours.head)])


def take_cait(theirs: Any, ours: Any) -> None:
    side = ours.config.patch
    conv = ours.embedding.map.weight.reshape(-1, side, side, 3).permute(0, 3, 1, 2)
    theirs.patch_embed.proj.weight.data = conv.contiguous()
    theirs.patch_embed.proj.bias.data = ours.embedding.map.bias.data
    take_trunk(theirs, ours, theirs.blocks, theirs.blocks_token_only)


def take_volo(theirs: Any, ours: Any) -> None:
    convs = [each for each in theirs.patch_embed.conv if not isinstance(each, nn.ReLU)]
    take(zip(convs[::2], ours.stem.convs, strict=True))
    take(zip(convs[1::2], ours.stem.norms, strict=True))
    take([(theirs.patch_embed.proj, ours.stem.map)])
    outlookers, down, *stages = theirs.network
    for block, own in zip(outlookers, ours.outlookers, strict=True):
        take_block(block, own)
    squares = ours.embedding.map.weight.reshape(len(down.proj.bias), 2, 2, -1)
    down.proj.weight.data = squares.permute(0, 3, 1, 2).contiguous()
    down.proj.bias.data = ours.embedding.map.bias.data
    take_trunk(theirs, ours, chain(*stages), theirs.post_network)
    if ours.token_head is not None:
        take([(theirs.aux_head, ours.token_head)])


def small(architecture: str, mixer: str, bias: bool | str, **settings: Any) -> Any:
    torch.manual_seed(0)
    spec = ModelSpec(
        architecture=architecture,
        mixer=mixer,
        position="learned",
        dim=DIM,
        depth=3,
        knobs={"heads": HEADS, "bias": bias},
        length=32 * 48,
        input_kind="image",
        input_size=3,
        output_size=CLASSES,
        grid=(32, 48),
        settings=settings,
    )
    return moved(build_model(spec).double())


def same_outputs_and_gradients(ours: Any, theirs: Any, images: Tensor, tolerance: float) -> None:
    """Compare on images `[batch, rows, columns, channels]`, which theirs reads channels first.

    The tolerance is a share of the largest number.
    """
    found = []
    for model, axes in ((ours, (0, 1, 2, 3)), (theirs, (0, 3, 1, 2))):
        x = images.clone().requires_grad_()
        given = model(x.permute(axes))
        logits = given.logits if isinstance(given, Outputs) else given
        found.append((logits.detach(), *torch.autograd.grad(logits.square().sum(), x)))
    assert found[1][0].std() > 0.1
    for own, expected in zip(*found, strict=True):
        atol = tolerance * expected.abs().max().item()
        torch.testing.assert_close(own, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("class_depth", [1, 2])
def test_cait_is_that_of_timm(class_depth: int) -> None:
    timm()
    from timm.models.cait import Cait

    ours = small("cait", "talking_heads", True, patch=8, class_depth=class_depth, layer_scale=0.3)

    theirs = Cait(
        img_size=cast("Any", (32, 48)),
        patch_size=8,
        num_classes=CLASSES,
        embed_dim=DIM,
        depth=3,
        num_heads=HEADS,
        depth_token_only=class_depth,
    )
    take_cait(theirs.double().eval(), ours)
    same_outputs_and_gradients(ours, theirs, IMAGES, 1e-9)


@pytest.mark.parametrize("has_token_head", [False, True])
def test_volo_is_that_of_timm(has_token_head: bool) -> None:
    timm()
    from timm.models.volo import VOLO

    ours = small(
        "volo",
        "attention",
        "output",
        patch=4,
        stem_width=6,
        outlook_depth=2,
        outlook_dim=8,
        outlook_heads=2,
        has_token_head=has_token_head,
    )
    theirs = VOLO(
        [2, 1, 2, 0],
        img_size=cast("Any", (32, 48)),
        num_classes=CLASSES,
        patch_size=4,
        stem_hidden_dim=6,
        embed_dims=[8, DIM, DIM, DIM],
        num_heads=[2, HEADS, HEADS, HEADS],
        use_aux_head=has_token_head,
    )
    take_volo(theirs.double().eval(), ours)
    same_outputs_and_gradients(ours, theirs, IMAGES, 1e-9)


@pytest.mark.parametrize(
    ("name", "system", "hand_over"),
    [("cait_xxs24", "cait_xxs24_224", take_cait), ("volo_d1", "volo_d1_224", take_volo)],
)
def test_a_preset_is_that_of_timm(
    name: str, system: str, hand_over: Callable[[Any, Any], None]
) -> None:
    """Compare in float32 on smaller images; LayerScale is moved to values with a visible effect."""
    torch.manual_seed(0)
    size = full_size(name, side=64, initialisation="scaled_normal")
    ours = moved(build_model(size), spread=0.03)
    with NothingDrawn():  # drawing would take long, and theirs copies all from ours
        theirs = timm().create_model(system, pretrained=False, img_size=64).eval()
    hand_over(theirs, ours)
    images = torch.randn(1, 64, 64, 3, generator=torch.Generator().manual_seed(1))
    same_outputs_and_gradients(ours, theirs, images, 1e-5)


def test_talking_heads_are_those_of_timm() -> None:
    timm()
    from timm.models.cait import TalkingHeadAttn

    ours = moved(build_mixer("talking_heads", dim=DIM, heads=HEADS, bias=True).double())
    theirs = TalkingHeadAttn(DIM, HEADS, qkv_bias=True).double().eval()
    take_mixer(theirs, ours)
    x = tokens(9, DIM)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-9)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("side", "stride"), [(3, 1), (3, 2), (5, 2), (5, 3)])
@pytest.mark.parametrize("grid", [(4, 6), (5, 7)])
def test_outlook_attention_is_that_of_timm(
    grid: tuple[int, int], side: int, stride: int, bias: bool
) -> None:
    """Compare also if a stride does not divide the grid, so that some means have fewer tokens."""
    timm()
    from timm.models.volo import OutlookAttention

    ours = build_mixer(
        "outlook_attention", dim=DIM, heads=HEADS, window_size=side, stride=stride, bias=bias
    )
    ours.take_grid(grid, 0)
    ours = moved(ours.double())
    theirs = OutlookAttention(DIM, HEADS, side, side // 2, stride, qkv_bias=bias).double().eval()
    take_mixer(theirs, ours)
    x = tokens(grid[0] * grid[1], DIM)
    expected = theirs(x.reshape(2, *grid, DIM)).reshape(x.shape)
    torch.testing.assert_close(ours(x), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("bias", [False, True])
def test_class_attention_is_that_of_timm(bias: bool) -> None:
    timm()
    from timm.models import cait, volo

    ours = moved(ClassAttention(DIM, HEADS, bias=bias).double())
    for kind in (cait.ClassAttn, volo.ClassAttention):
        theirs = kind(DIM, HEADS, qkv_bias=bias).double().eval()
        take_mixer(theirs, ours)
        x = tokens(9, DIM)
        torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-9)
