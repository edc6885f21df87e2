"""Compare the attentive encoder-decoders with loops over the papers' equations, token by token."""

import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelError, build_shapes
from bakeoff.models.architectures import attentive_seq2seq
from bakeoff.models.architectures.attentive_seq2seq import AttentiveSeq2Seq
from bakeoff.models.kernels import alignment
from bakeoff.models.kernels.gated_unit import GatedUnit
from tests.models.small_models import spec
from tests.processor import needs_bf16_lstm

DIM, TARGET, SOURCE = 4, 6, 5
TARGETS = torch.randint(11, (3, TARGET), generator=torch.Generator().manual_seed(1))
SOURCES = torch.randint(11, (3, SOURCE), generator=torch.Generator().manual_seed(2))
TARGET_MASK = torch.arange(TARGET) < torch.tensor([[TARGET], [4], [TARGET]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 0]]).bool()
BAHDANAU: tuple[dict[str, Any], ...] = (
    {},
    {"encoder_reset": "after", "depth": 1},
    {"score": "general", "is_source_reversed": True},
    {"score": "concat", "reach": "local_m", "window": 1},
    {"score": "location", "reach": "local_p", "window": 2, "depth": 1},
)
LUONG: tuple[dict[str, Any], ...] = tuple(
    {"form": "luong", **each}
    for each in (
        {"score": "dot", "is_source_reversed": True},
        {"score": "general", "reach": "local_m", "window": 1, "has_input_feeding": True},
        {"score": "general", "reach": "local_p", "window": 2, "depth": 1},
        {"score": "concat", "reach": "local_p", "window": 1, "has_input_feeding": True},
        {"score": "location", "is_source_reversed": True, "has_input_feeding": True, "depth": 1},
        {"score": "additive", "reach": "local_m", "window": 2},
    )
)
SETTINGS = BAHDANAU + LUONG


def build(kind: Any = AttentiveSeq2Seq, **changes: Any) -> AttentiveSeq2Seq:
    """Build a model with parameters far enough from zero that each of them has an effect."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = kind(spec("attentive_seq2seq", **({"dim": DIM, "depth": 2} | changes)))
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * 0.7
    ours: AttentiveSeq2Seq = model.double().eval()
    return ours


def whole(model: AttentiveSeq2Seq) -> Tensor:
    """Return the outputs of the padded batch, with garbage at padding."""
    return model(
        TARGETS.masked_fill(~TARGET_MASK, -1), TARGET_MASK, SOURCES.masked_fill(~MASK, -1), MASK
    )


def stepped(model: AttentiveSeq2Seq) -> Tensor:
    state, logits = model.initial_state(3, model.encode(SOURCES, MASK)), []
    for tokens in TARGETS.unbind(dim=1):
        found, state = model.step(tokens, state)
        logits.append(found)
    return torch.stack(logits, dim=1)


# The reference: the equations for one sequence of real tokens.


def reference(model: AttentiveSeq2Seq) -> tuple[Tensor, Tensor]:
    """Return logits `[batch, time, symbols]` and weights `[batch, time, time2]`, 0 at padding."""
    read = luong if model.config.form == "luong" else bahdanau
    logits, weights = torch.zeros(3, TARGET, 11).double(), torch.zeros(3, TARGET, SOURCE).double()
    for row in range(3):
        real = MASK[row].nonzero().flatten()
        y = model.embedding.table.weight[TARGETS[row]] * math.sqrt(DIM)
        x = model.source_embedding.table.weight[SOURCES[row][real]] * math.sqrt(DIM)
        for t, (found, a) in enumerate(read(model, list(x), list(y))):
            if TARGET_MASK[row, t]:
                logits[row, t] = found
            for place, weight in zip(real, a, strict=True):
                weights[row, t, place] = weight
    return logits, weights


def weights_of(model: AttentiveSeq2Seq, q: Tensor, hs: list[Tensor], t: int) -> list[Tensor]:
    """Return the weights of all states of a source for a state of the decoder."""
    part, config = model.network.alignment, model.config
    scores = []
    for place, h in enumerate(hs):
        if config.score == "dot":
            scores.append(q @ h)
        elif config.score == "general":
            scores.append(q @ part.keys.weight @ h)
        elif config.score == "concat":
            scores.append(part.vector.weight[0] @ torch.tanh(h + part.queries.weight @ q))
        elif config.score == "location":
            scores.append((part.queries.weight @ q)[place])
        else:
            both = part.queries.weight @ q + part.keys.weight @ h
            scores.append(part.vector.weight[0] @ torch.tanh(both))
    if config.reach == "global":
        return list(torch.stack(scores).softmax(dim=0))
    p: Any = t
    if config.reach == "local_p":
        p = part.centre_vector.weight[0] @ torch.tanh(part.centre.weight @ q)
        p = len(hs) / (1 + torch.exp(-p))
    window = [s for s in range(len(hs)) if p - config.window <= s <= p + config.window]
    found = [torch.zeros(()).double() for _ in hs]
    total: Any = sum(torch.exp(scores[s]) for s in window)
    for s in window:
        found[s] = torch.exp(scores[s]) / total
        if config.reach == "local_p":
            sigma = config.window / 2
            found[s] = found[s] * torch.exp(-((s - p) ** 2) / (2 * sigma**2))
    return found


def context_of(a: list[Tensor], hs: list[Tensor]) -> Tensor:
    return torch.stack([weight * h for weight, h in zip(a, hs, strict=True)]).sum(dim=0)


def unit(module: Any, x: Tensor, s: Tensor, of_context: Any = 0) -> Tensor:
    """Advance Bahdanau's unit, or torch's."""
    is_ours = isinstance(module, GatedUnit)
    if not is_ours:
        w, u = module.weight_ih_l0, module.weight_hh_l0
        (x_r, x_z, x_n), (s_r, s_z, s_n) = (
            (w @ x + module.bias_ih_l0).chunk(3),
            (u @ s + module.bias_hh_l0).chunk(3),
        )
        r, z = torch.sigmoid(x_r + s_r), torch.sigmoid(x_z + s_z)
        return (1 - z) * torch.tanh(x_n + r * s_n) + z * s
    of_x = module.of_input.weight @ x + module.of_input.bias + of_context
    (u_r, u_z), u_c = module.gates.weight.chunk(2), module.candidate.weight
    r, z = torch.sigmoid(of_x[:DIM] + u_r @ s), torch.sigmoid(of_x[DIM : 2 * DIM] + u_z @ s)
    return (1 - z) * s + z * torch.tanh(of_x[2 * DIM :] + u_c @ (r * s))


def bahdanau(model: Any, x: list[Tensor], y: list[Tensor]) -> list[tuple[Tensor, list[Tensor]]]:
    net, zeros = model.network, torch.zeros(DIM).double()
    is_reversed = model.config.is_source_reversed
    x = x[::-1] if is_reversed else x
    for ahead, back in zip(net.encoder[::2], net.encoder[1::2], strict=True):
        aheads, backs = [zeros], [zeros]
        for token in x:
            aheads.append(unit(ahead, token, aheads[-1]))
        for token in x[::-1]:
            backs.append(unit(back, token, backs[-1]))
        x = [torch.cat(pair) for pair in zip(aheads[1:], backs[:0:-1], strict=True)]
    states = [torch.tanh(start.weight @ backs[-1]) for start in net.starts]
    hs, found = x[::-1] if is_reversed else x, []
    for t, token in enumerate(y):
        a = weights_of(model, states[-1], hs, t)
        c = context_of(a, hs)
        pairs = net.readout.weight @ torch.cat([states[-1], token, c])
        best = torch.stack([torch.maximum(pairs[2 * k], pairs[2 * k + 1]) for k in range(DIM // 2)])
        found.append((model.head.weight @ best, a))
        below, of_context = token, net.of_context.weight @ c
        for layer, module in enumerate(net.decoder):
            states[layer] = unit(module, below, states[layer], of_context)
            below, of_context = states[layer], 0
    return found


def luong(model: Any, x: list[Tensor], y: list[Tensor]) -> list[tuple[Tensor, list[Tensor]]]:
    net, depth = model.network, model.spec.depth
    zeros = torch.zeros(DIM).double()
    state, hs, found, fed = [(zeros, zeros)] * depth, [], [], zeros
    for token in x[::-1] if model.config.is_source_reversed else x:
        state = lstm(net.encoder, token, state)
        hs.append(state[-1][0])
    hs = hs[::-1] if model.config.is_source_reversed else hs
    for t, token in enumerate(y):
        read = torch.cat([token, fed]) if model.config.has_input_feeding else token
        state = lstm(net.decoder, read, state)
        h = state[-1][0]
        a = weights_of(model, h, hs, t)
        fed = torch.tanh(net.combine.weight @ torch.cat([context_of(a, hs), h]))
        found.append((model.head.weight @ fed, a))
    return found


def lstm(module: Any, x: Tensor, state: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    new = []
    for layer, (h, c) in enumerate(state):
        w, u, b, b_u = (
            getattr(module, f"{name}_l{layer}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        i, f, g, o = (w @ x + b + u @ h + b_u).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        x = torch.sigmoid(o) * torch.tanh(c)
        new.append((x, c))
    return new


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_it_is_the_equations_of_its_paper(settings: dict[str, Any]) -> None:
    """Compare outputs, weights and gradients with padded sources and targets; padding is inert."""
    model = build(**settings)
    (expected, weights), found = reference(model), whole(model)
    found = found.masked_fill(~TARGET_MASK.unsqueeze(-1), 0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    attended = model.attention_weights(TARGETS, TARGET_MASK, SOURCES, MASK)[TARGET_MASK]
    torch.testing.assert_close(attended, weights[TARGET_MASK], rtol=0, atol=1e-9)
    each = torch.randn(found.shape, dtype=torch.double)
    parameters = list(model.parameters())
    gradients = [
        torch.autograd.grad((each * logits).sum(), parameters, allow_unused=True)
        for logits in (found, expected)
    ]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, 0 * ours if theirs is None else theirs, rtol=0, atol=1e-9)
        assert ours.isfinite().all()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_source_of_padding_alone_gives_no_context(settings: dict[str, Any]) -> None:
    model, nothing = build(**settings), torch.zeros(3, SOURCE).bool()
    found = model(TARGETS, None, SOURCES, nothing)
    assert torch.equal(found, model(TARGETS, None, SOURCES.flip(1), nothing))
    assert found.isfinite().all()
    found.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert not model.attention_weights(TARGETS, None, SOURCES, nothing).any()


def test_an_encoder_that_resets_after_the_product_is_torchs() -> None:
    """Compare with a packed, bidirectional GRU of two layers."""
    model: Any = build(encoder_reset="after")
    theirs = nn.GRU(DIM, DIM, 2, batch_first=True, bidirectional=True).double()
    for place, unit in enumerate(model.network.encoder):
        for name, value in unit.state_dict().items():
            suffix = f"l{place // 2}" + ("_reverse" if place % 2 else "")
            theirs.get_parameter(name.replace("l0", suffix)).data = value
    mask, lengths = MASK.sort(dim=1, descending=True)[0], MASK.sum(dim=1)
    embedded = model.source_embedding(SOURCES)
    packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, True, enforce_sorted=False)
    expected = nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], True)[0]
    state = model.encode(SOURCES, mask)
    torch.testing.assert_close(state.source.values[mask], expected[mask])


FEEDING = {"form": "luong", "score": "dot", "has_input_feeding": True}
LOCAL_P = {"form": "luong", "score": "general", "reach": "local_p", "window": 2}
LOCAL_M = {"form": "luong", "score": "dot", "reach": "local_m", "window": 1}
NEWEST = "fed = features[-1 - {}].squeeze(1) if len(features) > {} else 0 * state.vectors[2]"


REVERSED = {"score": "location", "is_source_reversed": True}
ALL_REAL = "(source.is_real | True)"


@pytest.mark.parametrize(
    ("module", "right", "wrong", "settings"),
    [
        (alignment, "share = source.is_real.", f"share = {ALL_REAL}.", {}),
        (alignment, "weights * share", "weights * share / (weights * share).sum(2, True)", LOCAL_P),
        (alignment, ".abs() <= self.window", ".abs() < self.window", LOCAL_M),
        (alignment, ".abs() <= self.window", ".abs() <= self.window + 1", LOCAL_M),
        (alignment, "(first + time)", "(first + time + 1)", LOCAL_M),
        (alignment, "(first + time)", "(0 * first + time)", LOCAL_M),
        (alignment, "source.is_real.sum(dim=1)", f"{ALL_REAL}.sum(dim=1)", LOCAL_P),
        (attentive_seq2seq, "fed = state.vectors[2]", NEWEST.format(1, 1), FEEDING),
        (attentive_seq2seq, "feature.squeeze(1)", "fed", FEEDING),
        (
            attentive_seq2seq,
            "found = self.alignment(states[-1]",
            "found = self.alignment(self._advance(of_input, states)[-1]",
            {},
        ),
        (
            attentive_seq2seq,
            "self.alignment(hidden, ",
            "self.alignment(torch.cat([h[-1].unsqueeze(1), hidden[:, :-1]], 1), ",
            LOCAL_P,
        ),
        (attentive_seq2seq, "values = turn(values) if is", "values = values if is", REVERSED),
        (attentive_seq2seq, "Turn(is_real if is_padded else None)", "Turn(None)", REVERSED),
    ],
)
def test_a_wrong_one_is_found(
    module: ModuleType,
    right: str,
    wrong: str,
    settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that the reference or the steps reject the wrong code, and accept the right one."""
    text = Path(str(module.__file__)).read_text()
    assert text.count(right) == 1
    other = ModuleType("wrong")
    monkeypatch.setitem(sys.modules, "wrong", other)
    exec(compile(text.replace(right, wrong), "wrong.py", "exec"), vars(other))
    if module is alignment:
        monkeypatch.setattr(attentive_seq2seq, "Alignment", other.Alignment)
    kind = getattr(other, "AttentiveSeq2Seq", AttentiveSeq2Seq)
    model, real = build(kind, **settings), TARGET_MASK
    expected, found = reference(model)[0], (whole(model), stepped(model))
    assert not all(torch.allclose(each[real], expected[real], atol=1e-6) for each in found)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_steps_equal_the_teacher_forced_form(settings: dict[str, Any]) -> None:
    model = build(**settings)
    together = model(TARGETS, None, SOURCES, MASK)
    torch.testing.assert_close(stepped(model), together, rtol=0, atol=1e-12)
    torch.testing.assert_close(whole(model)[TARGET_MASK], together[TARGET_MASK])


def test_attention_starts_uniform_whatever_the_initialisation() -> None:
    for initialisation in ("scaled_normal", "truncated_normal", "xavier_uniform"):
        torch.manual_seed(0)
        model = AttentiveSeq2Seq(spec("attentive_seq2seq", initialisation=initialisation))
        weights = model.attention_weights(TARGETS, None, SOURCES, MASK)
        expected = MASK / MASK.sum(dim=1, keepdim=True)
        torch.testing.assert_close(weights, expected.unsqueeze(1).expand_as(weights))
        assert model.network.alignment.keys.weight.std() < 0.0012


def test_windows_hold_the_places_around_the_centre() -> None:
    """Check that weights cover 2 D + 1 places, fewer at the borders, and none beyond the source."""
    model = build(**LOCAL_M | {"window": 1})
    seen = model.attention_weights(TARGETS, None, SOURCES)[0] > 0
    expected = [[abs(s - t) <= 1 for s in range(SOURCE)] for t in range(TARGET)]
    assert seen.tolist() == expected
    short = model.attention_weights(TARGETS, None, SOURCES[:, :2])
    assert not short[:, 3:].any()


@needs_bf16_lstm
@pytest.mark.parametrize("settings", [{}, {"form": "luong"}, FEEDING], ids=str)
def test_it_runs_under_autocast(settings: dict[str, Any]) -> None:
    model = build(**settings).float()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(TARGETS, TARGET_MASK, SOURCES, MASK)
        assert stepped(model).isfinite().all()
    logits.float().sum().backward()
    torch.testing.assert_close(
        logits.float()[TARGET_MASK], whole(model)[TARGET_MASK], rtol=0.1, atol=0.3
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 0, "reach": "local_m"}, "window=0 is not at least 1"),
        ({"window": 3}, "window=3 needs reach='local_m' or 'local_p'"),
        ({"score": "dot"}, "score='dot' needs form='luong'"),
        ({"has_input_feeding": True}, "has_input_feeding=True needs form='luong'"),
        ({"form": "luong", "encoder_reset": "after"}, "encoder_reset='after' needs form='bahdan"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build_shapes(spec("attentive_seq2seq", **settings))


def test_location_refuses_a_longer_source_and_no_source_is_refused() -> None:
    model = build(form="luong", score="location")
    with pytest.raises(ModelError, match="score='location' knows 40 places, not 41"):
        model(TARGETS, None, torch.zeros(3, 41).long())
    with pytest.raises(ModelError, match="attentive_seq2seq needs a context: the source"):
        model(TARGETS)
