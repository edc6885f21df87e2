"""Compare ConvS2S with loops over the paper's equations, and with copies that contain bugs."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Input, ModelError, ModelSpec
from bakeoff.models.architectures import conv_seq2seq
from bakeoff.models.architectures.conv_seq2seq import ConvSeq2Seq
from tests.models.broken import broken

DIM, DEPTH, SYMBOLS = 6, 2, 7
SOURCES = [[3, 1, 4, 1, 5], [2, 6, 5], [1], []]
TARGETS = [[1, 4, 2, 6], [1, 3], [1, 5, 5], [1, 2, 2]]


def build(kind: type[ConvSeq2Seq] = ConvSeq2Seq, **settings: Any) -> ConvSeq2Seq:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sizes = {"dim": settings.pop("dim", DIM), "depth": settings.pop("depth", DEPTH)}
    source = Input(kind="tokens", size=SYMBOLS, length=8)
    model = kind(
        ModelSpec(
            architecture="conv_seq2seq",
            length=8,
            input_kind="tokens",
            input_size=SYMBOLS,
            output_size=SYMBOLS,
            others={"context": source},
            settings=settings,
            **sizes,
        )
    ).double()
    for name, parameter in model.named_parameters():
        if "bias" in name or "gain" in name:  # zeros, and gains without effect, would hide errors
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
        elif "embedding" in name:  # the size of the vectors that they are added to
            torch.nn.init.normal_(parameter)
    return model


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Return the tokens with garbage at padded places, and the mask."""
    width = max(map(len, rows)) + 2
    tokens = torch.tensor([row + [-1] * (width - len(row)) for row in rows])
    return tokens, tokens >= 0


def mapped(part: Any, window: list[Tensor]) -> Tensor:
    """Compute b + sum_j W_j x_j with W = g v / |v|."""
    total = part.bias
    for j, x in enumerate(window):
        rows = []
        for output in range(len(part.bias)):
            v = part.weight[output]
            g = v.square().sum().sqrt() if part.gain is None else part.gain[output]
            rows.append(g * (v[:, j] / v.square().sum().sqrt()) @ x)
        total = total + torch.stack(rows)
    return total


def block(part: Any, h: list[Tensor], num_before: int) -> list[Tensor]:
    """Compute (GLU(conv(h)) + h) sqrt(.5); the window of place i begins at i - `num_before`."""
    outputs = []
    for i in range(len(h)):
        places = range(i - num_before, i - num_before + part.weight.shape[2])
        window = [h[p] if 0 <= p < len(h) else torch.zeros_like(h[0]) for p in places]
        both = mapped(part, window)
        gated = both[:DIM] / (1 + torch.exp(-both[DIM:]))
        outputs.append((gated + h[i]) * math.sqrt(0.5))
    return outputs


def embedded(part: Any, tokens: list[int]) -> list[Tensor]:
    return [part.table.weight[token] + part.places.table[i] for i, token in enumerate(tokens)]


def reference(model: ConvSeq2Seq, source: list[int], target: list[int]) -> Tensor:
    """Return the logits of section 3 for one pair without padding, `[time, output_size]`."""
    width, attending = model.config.kernel_size, model.attending_layers()
    e = embedded(model.source_embedding, source)
    h = [mapped(model.encoder["enter"], [x]) for x in e]
    for part in model.encoder["convolutions"]:
        h = block(part, h, (width - 1) // 2)
    z = [mapped(model.encoder["leave"], [x]) for x in h]
    for each in z:
        each.register_hook(lambda gradient: gradient / len(attending))
    g = embedded(model.target_embedding, target)
    h = [mapped(model.decoder["enter"], [x]) for x in g]
    for layer, part in enumerate(model.decoder["convolutions"]):
        h = block(part, h, width - 1)
        if layer in attending:
            h = [(x + taken(model, layer, x, g[i], z, e)) * math.sqrt(0.5) for i, x in enumerate(h)]
    return torch.stack([mapped(model.head, [mapped(model.decoder["leave"], [x])]) for x in h])


def taken(
    model: ConvSeq2Seq, layer: int, h: Tensor, g: Tensor, z: list[Tensor], e: list[Tensor]
) -> Tensor:
    """Compute c m sqrt(1/m) of equations 1 and 2."""
    m, d = len(z), mapped(model.queries[str(layer)], [h]) + g
    if m == 0:
        return torch.zeros_like(h)
    powers = [torch.exp(d @ each) for each in z]
    c = sum(power / sum(powers) * (each + x) for power, each, x in zip(powers, z, e, strict=True))
    return m * math.sqrt(1 / m) * c


def check(model: ConvSeq2Seq) -> None:
    """Compare outputs and gradients on a padded batch."""
    (targets, mask), (sources, source_mask) = padded(TARGETS), padded(SOURCES)
    ours = model(targets, mask, sources, source_mask)[mask]
    expected = torch.cat([reference(model, s, t) for s, t in zip(SOURCES, TARGETS, strict=True)])
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-9)
    direction = torch.randn(ours.shape, generator=torch.Generator().manual_seed(3)).double()
    parameters = list(model.parameters())
    found = [torch.autograd.grad((each * direction).sum(), parameters) for each in (ours, expected)]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "settings", [{}, {"kernel_size": 4, "attending": "2"}, {"weight_norm": False}], ids=str
)
def test_values_and_gradients_are_the_papers(settings: dict[str, Any]) -> None:
    check(build(**settings))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        # The encoder's convolutions read padding.
        ("without_padding(self.dropout(hidden), context_mask)", "self.dropout(hidden)"),
        # With k places removed instead of k - 1, each place of the decoder depends on the next one.
        ("(0, 0, self.config.kernel_size - 1, 0))", "(0, 0, self.config.kernel_size - 2, 1))"),
        ("source.is_real.sum(dim=1)", "torch.ones_like(source.is_real).sum(dim=1)"),  # padded m
        ("is_real = source.is_real.unsqueeze(1)", "is_real = source.is_real.new_ones(())"),
        ("ConvSource(keys, keys + embedded, is_real)", "ConvSource(keys, keys, is_real)"),
        ("kept + (x - kept) / number", "x"),  # gradients of the encoder not divided
        ("(hidden) + embedded\n", "(hidden)\n"),  # d without the target's embedding
    ],
    ids=["padding", "future", "length", "attention", "embedding", "gradient", "query"],
)
def test_bugs_are_noticed(right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = broken(conv_seq2seq, right, wrong, monkeypatch)
    with pytest.raises(AssertionError, match="not close"):
        check(build(copy.ConvSeq2Seq))


def test_weights_are_drawn_as_in_section_3_5() -> None:
    model = build(dim=48, depth=1, dropout=0.5)
    parts = {
        "encoder.enter": 0.5 / 48,
        "encoder.convolutions.0": 4 * 0.5 / (3 * 48),
        "encoder.leave": 1 / 48,
        "decoder.convolutions.0": 4 * 0.5 / (3 * 48),
        "queries.0": 1 / 48,
        "head": 0.5 / 48,
    }
    for name, variance in parts.items():
        weight = model.get_parameter(f"{name}.weight")
        assert weight.var().item() == pytest.approx(variance, rel=0.2), name
    fresh = conv_seq2seq.PlacedEmbedding(40, 48, 40)
    for table in fresh.parameters():
        assert table.std().item() == pytest.approx(0.1, rel=0.1)
    part = conv_seq2seq.NormedMap(5, 4, 3, variance=1.0, config=model.config)
    torch.testing.assert_close(part.gain, part.weight.flatten(1).norm(dim=1))
    assert not part.bias.any()


def test_weights_of_attention_are_shares_of_the_source() -> None:
    model, (targets, mask), (sources, source_mask) = build(), padded(TARGETS), padded(SOURCES)
    given = targets, mask, sources, source_mask
    mean = model.attention_weights(*given)
    assert mean.shape == (*targets.shape, sources.shape[1])
    assert not mean.masked_select(~source_mask.unsqueeze(1)).any()
    expected = source_mask.any(dim=1).double().unsqueeze(1).expand(targets.shape)
    torch.testing.assert_close(mean.sum(dim=2), expected)
    layers = [model.attention_weights(*given, layer=layer) for layer in range(DEPTH)]
    torch.testing.assert_close(sum(layers) / DEPTH, mean)
    with pytest.raises(ModelError, match=r"layer=0 attends to nothing, \[1\] do"):
        build(attending="2").attention_weights(*given, layer=0)


def test_it_trains_under_autocast() -> None:
    model, (targets, mask), (sources, source_mask) = build(), padded(TARGETS), padded(SOURCES)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.float()(targets, mask, sources, source_mask)
    logits[mask].float().square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attending": "1,3"}, "conv_seq2seq: attending='1,3' is neither all nor layers of 1 to 2"),
        ({"attending": "1,1"}, "each once, joined by commas"),
        ({"kernel_size": 0}, "conv_seq2seq: kernel_size=0 is not at least 1"),
        ({"dropout": 1.0}, "conv_seq2seq: dropout=1.0 is not at least 0 and below 1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build(**settings)


def test_there_is_no_translation_without_a_source() -> None:
    with pytest.raises(ModelError, match="conv_seq2seq needs a context: the source"):
        build()(padded(TARGETS)[0])
