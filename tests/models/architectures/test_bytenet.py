"""Compare ByteNet with loops over the paper's figure 3, and with copies that contain bugs."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Input, ModelError, ModelSpec
from bakeoff.models.architectures import bytenet
from bakeoff.models.architectures.bytenet import ByteNet
from tests.models.broken import broken

DIM, DEPTH, SYMBOLS = 6, 2, 7
SOURCES = [[3, 1, 4, 1, 5, 2], [2, 6, 5, 5], [1], []]
TARGETS = [[1, 4, 2, 6], [1, 3, 3, 2, 4, 1, 5], [1, 5, 5], [1, 2]]


def build(kind: type[ByteNet] = ByteNet, dim: int = DIM, **settings: Any) -> ByteNet:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    source = Input(kind="tokens", size=SYMBOLS, length=8)
    model = kind(
        ModelSpec(
            architecture="bytenet",
            dim=dim,
            depth=DEPTH,
            length=8,
            input_kind="tokens",
            input_size=SYMBOLS,
            output_size=SYMBOLS,
            others={"context": source},
            settings=settings,
        )
    ).double()
    for parameter in model.parameters():
        if parameter.ndim == 1:  # zeros and ones would hide errors
            torch.nn.init.uniform_(parameter, 0.2, 1.2)
    return model


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Return the tokens with garbage at padded places, and the mask."""
    width = max(map(len, rows)) + 2
    tokens = torch.tensor([row + [-1] * (width - len(row)) for row in rows])
    return tokens, tokens >= 0


def mapped(part: Any, window: list[Tensor]) -> Tensor:
    """Compute b + sum_j W_j x_j."""
    total = part.bias
    for j, x in enumerate(window):
        total = total + part.weight[:, :, j] @ x
    return total


def normed(part: Any, x: Tensor) -> Tensor:
    centred = x - x.sum() / len(x)
    return part.weight * centred / (centred.square().sum() / len(x) + 1e-5).sqrt() + part.bias


def stack(blocks: Any, x: list[Tensor], dilations: list[int], *, is_causal: bool) -> list[Tensor]:
    """Apply the blocks of figure 3, place by place."""
    for part, dilation in zip(blocks, dilations, strict=True):
        width = part.mix.weight.shape[2]
        first = -(width - 1) if is_causal else -((width - 1) // 2)
        narrow = [mapped(part.narrow, [normed(part.norms[0], each).relu()]) for each in x]
        read = [normed(part.norms[1], each).relu() for each in narrow]
        outputs = []
        for i in range(len(x)):
            places = [i + (first + j) * dilation for j in range(width)]
            nothing = torch.zeros(DIM // 2).double()
            window = [read[p] if 0 <= p < len(x) else nothing for p in places]
            mixed = normed(part.norms[2], mapped(part.mix, window)).relu()
            outputs.append(x[i] + mapped(part.widen, [mixed]))
        x = outputs
    return x


def reference(model: ByteNet, dilations: list[int], source: list[int], target: list[int]) -> Tensor:
    """Return the logits of one pair without padding, `[time, output_size]`."""
    nothing = torch.zeros(DIM).double()
    num_places = math.ceil(model.config.length_ratio * len(source))
    x = [model.source_embedding.weight[token] for token in source]
    x += [nothing] * (num_places - len(source))
    x = stack(model.encoder, x, dilations, is_causal=False)
    columns = [normed(model.encoder_norm, each) for each in x][:num_places]
    x = []
    for t, token in enumerate(target):
        column = columns[t] if t < len(columns) else nothing
        both = torch.cat([model.target_embedding.weight[token], column])
        x.append(mapped(model.join, [both]))
    x = stack(model.decoder, x, dilations, is_causal=True)
    return torch.stack([mapped(model.head, [normed(model.decoder_norm, e).relu()]) for e in x])


def check(model: ByteNet, dilations: list[int]) -> None:
    """Compare outputs and gradients on a padded batch."""
    (targets, mask), (sources, source_mask) = padded(TARGETS), padded(SOURCES)
    ours = model(targets, mask, sources, source_mask)[mask]
    rows = zip(SOURCES, TARGETS, strict=True)
    expected = torch.cat([reference(model, dilations, *row) for row in rows])
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-9)
    direction = torch.randn(ours.shape, generator=torch.Generator().manual_seed(3)).double()
    parameters = list(model.parameters())
    found = [torch.autograd.grad((each * direction).sum(), parameters) for each in (ours, expected)]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "dilations"),
    [({}, [1, 2]), ({"kernel_size": 4, "length_ratio": 0.5}, [1, 2]), ({"dilations": "3"}, [3, 3])],
)
def test_values_and_gradients_are_the_papers(
    settings: dict[str, Any], dilations: list[int]
) -> None:
    check(build(**settings), dilations)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [  # padding is convolved; the future is read; columns late by one; places of the padded length
        ("without_padding(self._narrowed(x), mask)", "self._narrowed(x)"),
        ("(0, 0, *self.around)", "(0, 0, self.around[0] - 1, self.around[1] + 1)"),
        ("(0, 0, 0, missing))[:, : inputs.shape[1]]", "(0, 0, 1, missing))[:, : inputs.shape[1]]"),
        ("lengths.double() *", "(0 * lengths + context.shape[1]) *"),
        ("without_padding(self.encoder_norm(hidden), is_unfolded)", "self.encoder_norm(hidden)"),
        ("dilations[layer % len(dilations)]", "dilations[0]"),
    ],
    ids=["padding", "future", "column", "length", "beyond", "dilation"],
)
def test_bugs_are_noticed(right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = broken(bytenet, right, wrong, monkeypatch)
    with pytest.raises(AssertionError, match="not close"):
        check(build(copy.ByteNet), [1, 2])


def test_all_is_drawn_to_keep_the_size_of_tokens() -> None:
    part = bytenet.DilatedMap(32, 48, 3)
    assert part.weight.var().item() == pytest.approx(1 / (3 * 32), rel=0.1)
    assert not part.bias.any()


def test_it_trains_under_autocast() -> None:
    model, (targets, mask), (sources, source_mask) = build(), padded(TARGETS), padded(SOURCES)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.float()(targets, mask, sources, source_mask)
    logits[mask].float().square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 5}, "bytenet: dim=5 is odd, and blocks halve it"),
        ({"dilations": "1,0"}, "dilations='1,0' are not whole numbers of at least 1, joined"),
        ({"kernel_size": 0}, "bytenet: kernel_size=0 is not at least 1"),
        ({"length_ratio": 0}, r"bytenet: length_ratio=0.0 is not above 0"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build(**settings)


def test_there_is_no_translation_without_a_source() -> None:
    with pytest.raises(ModelError, match="bytenet needs a context: the source"):
        build()(padded(TARGETS)[0])
