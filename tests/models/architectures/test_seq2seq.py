"""Compare encoder-decoders joined by one vector with the papers' equations, token by token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import Input, ModelError, ModelSpec, build_model, build_shapes
from bakeoff.models.architectures.seq2seq import ChoGRULayer, Seq2Seq, SourceSummary
from tests.processor import needs_bf16_lstm

DIM, DEPTH, SYMBOLS, SOURCE, TARGET = 6, 2, 7, 5, 4
CHO = {
    "cell": "cho_gru",
    "summary": "context",
    "readout": "maxout",
    "is_source_reversed": False,
}
SETTINGS: list[dict[str, Any]] = [
    {},  # Sutskever et al.
    CHO,
    {"cell": "gru", "summary": "context"},
    {"summary": "context", "readout": "maxout"},
    {"cell": "cho_gru"},
    {"cell": "gru", "readout": "maxout", "is_source_reversed": False},
]
# The rows are whole, padded behind, in front and in between, and nothing but padding.
MASK = torch.tensor(
    [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 0, 0, 0]]
).bool()
TARGET_MASK = torch.arange(TARGET) < torch.tensor([[4], [2], [3], [4], [1]])
each_setting = pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(map(str, s)))


def spec(dim: int = DIM, depth: int = DEPTH, symbols: int = SYMBOLS, **settings: Any) -> ModelSpec:
    source = Input(kind="tokens", size=2 * symbols, length=SOURCE)
    return ModelSpec(
        architecture="seq2seq",
        dim=dim,
        depth=depth,
        length=TARGET,
        input_kind="tokens",
        input_size=symbols,
        output_size=symbols,
        others={"context": source},
        settings=settings,
    )


def build(**settings: Any) -> Seq2Seq:
    """Build in float64, with parameters so large that all of the source affects the logits."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = build_model(spec(**{"uniform_range": 1.0, **settings})).double()
    assert isinstance(model, Seq2Seq)
    return model


def tokens(symbols: int, length: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(symbols, (len(MASK), length), generator=generator)


SOURCES, TARGETS = tokens(2 * SYMBOLS, SOURCE, 1), tokens(SYMBOLS, TARGET, 2)


# The papers' equations.


def advanced(network: Any, layer: int, x: Tensor, state: list[Tensor]) -> list[Tensor]:
    """Return the state of one layer after one more input."""
    h = state[0]
    if not isinstance(network, nn.RNNBase):
        own = network.layers[layer]
        w, b, u, u_n = (
            own.of_input.weight,
            own.of_input.bias,
            own.gates.weight,
            own.candidate.weight,
        )
        r = torch.sigmoid(w[:DIM] @ x + b[:DIM] + u[:DIM] @ h)
        z = torch.sigmoid(w[DIM : 2 * DIM] @ x + b[DIM : 2 * DIM] + u[DIM:] @ h)
        return [z * h + (1 - z) * torch.tanh(w[2 * DIM :] @ x + b[2 * DIM :] + u_n @ (r * h))]
    w, u, b, b_u = (
        getattr(network, f"{name}_l{layer}").split(DIM)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    gates = [(w[k] @ x + b[k], u[k] @ h + b_u[k]) for k in range(len(w))]
    if isinstance(network, nn.LSTM):
        i, f, o = (torch.sigmoid(sum(gates[k])) for k in (0, 1, 3))
        c = f * state[1] + i * torch.tanh(sum(gates[2]))
        return [o * torch.tanh(c), c]
    r, z = (torch.sigmoid(sum(gates[k])) for k in (0, 1))
    return [z * h + (1 - z) * torch.tanh(gates[2][0] + r * gates[2][1])]


def read(network: Any, x: Tensor, layers: list[list[Tensor]]) -> Tensor:
    """Return the top layer's h after one more input; update `layers` in place."""
    for place in range(DEPTH):
        layers[place] = advanced(network, place, x, layers[place])
        x = layers[place][0]
    return x


def reference_of_one(model: Seq2Seq, target: list[int], source: list[int]) -> Tensor:
    """Return logits `[time, symbols]` of one target, given the real tokens of its source."""
    zeros, knobs = torch.zeros(DIM).double(), model.config
    num_vectors = 2 if knobs.cell == "lstm" else 1
    layers = [[zeros] * num_vectors for _ in range(DEPTH)]
    for token in reversed(source) if knobs.is_source_reversed else source:
        read(model.encoder, model.source_embedding.weight[token], layers)
    c = torch.zeros(0).double()
    if knobs.summary == "context":
        c = torch.tanh(model.to_context.weight @ layers[-1][0])
        starts = model.to_start.weight.split(DIM)
        layers = [[torch.tanh(start @ c), *[zeros] * (num_vectors - 1)] for start in starts]
    logits = []
    for token in target:
        e = model.embedding.weight[token]
        h = read(model.decoder, torch.cat([e, c]), layers)
        if knobs.readout == "maxout":
            o_h, o_y, o_c = model.readout.weight.split([DIM, DIM, len(c)], dim=1)
            s = o_h @ h + o_y @ e + o_c @ c + model.readout.bias
            h = torch.stack([torch.maximum(s[i], s[i + 1]) for i in range(0, DIM, 2)])
        logits.append(model.head.weight @ h + model.head.bias)
    return torch.stack(logits)


def reference(model: Seq2Seq) -> Tensor:
    rows = zip(TARGETS, SOURCES, MASK, strict=True)
    return torch.stack([reference_of_one(model, t.tolist(), s[m].tolist()) for t, s, m in rows])


@each_setting
def test_it_is_the_papers_equations(settings: dict[str, Any]) -> None:
    model = build(**settings)
    both = [model(TARGETS, None, SOURCES, MASK), reference(model)]
    torch.testing.assert_close(*both, rtol=0, atol=1e-9)
    parameters = list(model.parameters())
    gradients = [torch.autograd.grad(each.square().sum(), parameters) for each in both]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-9)
    assert all(gradient.abs().max() > 0 for gradient in gradients[0])


@each_setting
def test_padding_of_source_and_target_is_never_read(settings: dict[str, Any]) -> None:
    model = build(**settings)
    x, garbage = (
        model(
            TARGETS.masked_fill(~TARGET_MASK, target),
            TARGET_MASK,
            SOURCES.masked_fill(~MASK, source),
            MASK,
        )[TARGET_MASK]
        for target, source in ((0, 0), (-1, -1))
    )
    assert torch.equal(x, garbage)
    whole = model(TARGETS, TARGET_MASK, SOURCES, MASK)
    torch.testing.assert_close(whole[TARGET_MASK], x)
    for row in range(4):
        given = TARGETS[row : row + 1, : TARGET_MASK[row].sum()], SOURCES[row, MASK[row]][None]
        alone = model(given[0], None, given[1])
        torch.testing.assert_close(whole[row : row + 1, : alone.shape[1]], alone)
    assert model(TARGETS[:0], None, SOURCES[:0], MASK[:0]).shape == (0, TARGET, SYMBOLS)


# Common errors, which the comparison with the equations must detect.


def naively(change: Callable[[Tensor], Tensor], mask: Tensor | None) -> Any:
    """Return an encoder that reads whole rows of a source after a change to it."""
    last_states = Seq2Seq._last_states

    def wrong(self: Seq2Seq, context: Tensor, _: Tensor | None) -> Any:
        return last_states(self, change(context), mask)

    return wrong


def of_another_layer(self: Seq2Seq, context: Tensor, mask: Tensor | None = None) -> SourceSummary:
    return SourceSummary(tuple(each.flip(1) for each in self._last_states(context, mask)), NOTHING)


def reset_after_the_product(self: ChoGRULayer, of_input: Tensor, h: Tensor) -> Tensor:
    x_r, x_z, x_n = of_input.chunk(3, dim=-1)
    h_r, h_z = self.gates(h).chunk(2, dim=-1)
    z = torch.sigmoid(x_z + h_z)
    return z * h + (1 - z) * torch.tanh(x_n + torch.sigmoid(x_r + h_r) * self.candidate(h))


NOTHING = torch.zeros(len(MASK), 0).double()
MISTAKES = {
    "padding is reversed too": (
        {"is_source_reversed": False},
        Seq2Seq,
        "_last_states",
        naively(lambda context: context.flip(1), MASK),
    ),
    "c is of a padded place": (CHO, Seq2Seq, "_last_states", naively(torch.clone, None)),
    "layers start from others": ({}, Seq2Seq, "encode", of_another_layer),
    "the reset gate acts after U": (CHO, ChoGRULayer, "advance", reset_after_the_product),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, owner, method, wrong = MISTAKES[mistake]
    model = build(**settings)
    expected = reference(model)
    monkeypatch.setattr(owner, method, wrong)
    found = model(TARGETS, None, SOURCES, MASK)
    assert (found - expected).abs().max() > 1e-3


@pytest.mark.parametrize("part", ["r", "z", "candidate", "readout", "start"])
def test_c_enters_everything(part: str) -> None:
    """Check that the logits change if one part does not receive c."""
    model = build(**CHO)
    expected = reference(model)
    with torch.no_grad():
        if part == "start":
            model.to_start.weight[:DIM] = 0  # the part of the bottom layer
        elif part == "readout":
            model.readout.weight[:, 2 * DIM :] = 0
        else:
            gate = ("r", "z", "candidate").index(part)
            model.decoder.layers[0].of_input.weight[gate * DIM : (gate + 1) * DIM, DIM:] = 0
        assert (model(TARGETS, None, SOURCES, MASK) - expected).abs().max() > 1e-3


# Further properties.


def test_it_has_the_parameters_of_the_paper() -> None:
    """Check section 3.4: 384 million parameters, of which 64 million are recurrent."""
    paper = ModelSpec(
        architecture="seq2seq",
        dim=1000,
        depth=4,
        length=8,
        input_kind="tokens",
        input_size=80_000,
        output_size=80_000,
        others={"context": Input(kind="tokens", size=160_000, length=8)},
    )
    model = build_shapes(paper)
    assert round(model.num_parameters() / 1e6) == 384
    recurrent = [*model.encoder.parameters(), *model.decoder.parameters()]
    assert round(sum(each.numel() for each in recurrent) / 1e6) == 64


@each_setting
def test_all_is_drawn_within_the_range_and_nothing_twice(settings: dict[str, Any]) -> None:
    model = build(**settings, uniform_range=0.08)
    drawn = torch.cat([each.detach().flatten() for each in model.parameters()])
    assert 0.0799 < drawn.abs().max() <= 0.08
    assert float(drawn.std()) == pytest.approx(0.08 / 3**0.5, rel=0.05)
    assert len(drawn.unique()) > 0.99 * len(drawn)
    assert build(**settings, uniform_range=None).embedding.weight.abs().max() > 1


@needs_bf16_lstm
@each_setting
def test_it_runs_in_bfloat16(settings: dict[str, Any]) -> None:
    model = build(**settings).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(TARGETS, None, SOURCES, MASK)
        state = model.initial_state(len(MASK), model.encode(SOURCES, MASK))
        for read_now in TARGETS[:, :2].unbind(dim=1):
            step, state = model.step(read_now, state)
    assert logits.isfinite().all()
    torch.testing.assert_close(step.float(), logits[:, 1].float(), rtol=0.05, atol=0.1)
    logits.float().sum().backward()
    assert model.bfloat16()(TARGETS, None, SOURCES, MASK).dtype is torch.bfloat16


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ModelError, match="readout='maxout' needs an even dim, not dim=5"):
        build_shapes(spec(dim=5, readout="maxout"))
    with pytest.raises(ModelError, match=r"uniform_range=0\.0 is not above 0, nor None"):
        build_shapes(spec(uniform_range=0))
    with pytest.raises(ModelError, match="seq2seq needs a context: the source"):
        build()(TARGETS)
