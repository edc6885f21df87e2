"""Compare the translator with torch's Transformer, and its steps with its parallel form."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models import (
    MIXERS,
    Input,
    ModelError,
    ModelSpec,
    build_model,
    build_shapes,
    mixer_class,
)
from bakeoff.models.architectures.translator import Translator
from bakeoff.models.decoding import Decoder, beam_search, generate
from bakeoff.reports.literature.csv import rows_of

DIM, DEPTH, SYMBOLS, SOURCE, TARGET = 16, 2, 11, 9, 7
MASK = torch.tensor([[True] * 9, [True] * 4 + [False] * 5, [False] * 9])
TARGET_MASK = torch.tensor([[True] * 7, [True] * 3 + [False] * 4, [True] * 7])
FITTING = [
    name for name in MIXERS if mixer_class(name).supports_causal and mixer_class(name).supports_step
]


# By default one mixer that keeps all tokens, one that keeps a window, and three with a state of one
# size; the others in the battery.
SOME = ("attention", "local_attention", "gru", "linear_transformer", "mamba2")
MOST_IN_BATTERY = [
    pytest.param(name, marks=[pytest.mark.battery] * (name not in SOME)) for name in FITTING
]


def spec(mixer: str = "attention", source_symbols: int = SYMBOLS, **changes: Any) -> ModelSpec:
    fields: dict[str, Any] = {
        "mixer": mixer,
        "knobs": {},
        "position": "sinusoidal",
        "dim": DIM,
        "depth": DEPTH,
        "length": TARGET + 5,
        "input_size": SYMBOLS,
        "output_size": SYMBOLS,
    }
    settings = {key: value for key, value in changes.items() if key not in fields}
    of_spec = {key: value for key, value in changes.items() if key in fields}
    source = Input(kind="tokens", size=source_symbols, length=SOURCE)
    return ModelSpec(
        architecture="translator",
        input_kind="tokens",
        others={"context": source},
        settings=settings,
        **(fields | of_spec),
    )


def build(*given: Any, **changes: Any) -> Translator:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = build_model(spec(*given, **changes)).double().eval()
    assert isinstance(model, Translator)
    return model


def tokens(length: int, seed: int) -> Tensor:
    return torch.randint(SYMBOLS, (3, length), generator=torch.Generator().manual_seed(seed))


SOURCES, TARGETS = tokens(SOURCE, 1), tokens(TARGET, 2)


def torchs_transformer(model: Translator, *, is_pre: bool) -> nn.Transformer:
    """Return torch's form of the model with our weights; its last norms are for pre-norm only."""
    theirs = (
        nn.Transformer(
            DIM, 4, DEPTH, DEPTH, 4 * DIM, dropout=0.0, norm_first=is_pre, batch_first=True
        )
        .double()
        .eval()
    )
    for stack, trunk in ((theirs.encoder, model.encoder), (theirs.decoder, model.decoder)):
        for layer, block in zip(stack.layers, trunk.blocks, strict=True):
            copy_attention(block.mixer, layer.self_attn)
            layer.norm1.load_state_dict(block.mixer_norm.state_dict())
            layer.linear1.load_state_dict(block.mlp.expand.state_dict())
            layer.linear2.load_state_dict(block.mlp.contract.state_dict())
            if trunk is model.decoder:
                copy_attention(block.context_mixer, layer.multihead_attn)
                layer.norm2.load_state_dict(block.context_norm.state_dict())
                layer.norm3.load_state_dict(block.mlp_norm.state_dict())
            else:
                layer.norm2.load_state_dict(block.mlp_norm.state_dict())
        if is_pre:
            stack.norm.load_state_dict(trunk.norm.state_dict())
        else:
            stack.norm = None
    return theirs


def copy_attention(ours: Any, theirs: nn.MultiheadAttention) -> None:
    maps = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.data = torch.cat([each.weight for each in maps]).detach()
    theirs.in_proj_bias.data = torch.cat([each.bias for each in maps]).detach()
    theirs.out_proj.load_state_dict(ours.output.state_dict())


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_it_is_torchs_transformer(placement: str) -> None:
    model = build(norm_placement=placement, knobs={"bias": True, "heads": 4})
    for parameter in model.parameters():  # biases start at zero and norms at one
        parameter.data += 0.05 * torch.randn_like(parameter)
    rows = slice(0, 2)  # torch gives NaN if all is padding
    source = model.encoder.position(model.embedding(SOURCES[rows]))
    target = model.decoder.position(model.embedding(TARGETS[rows]))
    hidden_from = torch.ones(TARGET, TARGET).triu(1).bool()
    hidden = torchs_transformer(model, is_pre=placement == "pre")(
        source,
        target,
        tgt_mask=hidden_from,
        src_key_padding_mask=~MASK[rows],
        tgt_key_padding_mask=~TARGET_MASK[rows],
        memory_key_padding_mask=~MASK[rows],
    )
    expected = hidden @ model.embedding.table.weight.T
    found = model(TARGETS[rows], TARGET_MASK[rows], SOURCES[rows], MASK[rows])
    real = TARGET_MASK[rows]
    torch.testing.assert_close(found[real], expected[real])


def test_the_base_model_has_the_parameters_of_torchs() -> None:
    """Compare with torch 2.13, less the norm that it adds after each stack."""
    (row,) = (row for row in rows_of("parameters.csv") if row["system"] == "Transformer, base")
    model = build_shapes(spec(dim=512, depth=6, knobs={"heads": 8, "bias": True}))
    assert model.num_parameters() - SYMBOLS * 512 == int(row["value"]) - 2 * 2 * 512


TABLE_3 = {  # from Vaswani et al. 2017: millions of parameters
    "base": ({}, 65),
    "A, h=1": ({"heads": 1}, 65),
    "A, h=32": ({"heads": 32}, 65),
    "B, d_k=16": ({"key_dim": 16, "value_dim": 64}, 58),
    "B, d_k=32": ({"key_dim": 32, "value_dim": 64}, 60),
    "C, N=2": ({"depth": 2}, 36),
    "C, N=4": ({"depth": 4}, 50),
    "C, N=8": ({"depth": 8}, 80),
    "C, d=256": ({"dim": 256, "feed_forward_ratio": 8.0}, 28),
    "C, d=1024": ({"dim": 1024, "feed_forward_ratio": 2.0}, 168),
    "C, ff=1024": ({"feed_forward_ratio": 2.0}, 53),
    "C, ff=4096": ({"feed_forward_ratio": 8.0}, 90),
    "big": ({"dim": 1024, "heads": 16}, 213),
}


def millions_of(row: dict[str, Any]) -> float:
    """Count with 41,000 symbols, as the rows imply for one matrix; the text has about 37,000."""
    knobs = {"heads": 8} | {k: v for k, v in row.items() if k in ("heads", "key_dim", "value_dim")}
    sizes = {"dim": 512, "depth": 6} | {k: v for k, v in row.items() if k not in knobs}
    symbols = {"input_size": 41_000, "output_size": 41_000, "source_symbols": 41_000}
    return build_shapes(spec(knobs=knobs, **symbols, **sizes)).num_parameters() / 1e6


@pytest.mark.parametrize("name", [name for name in TABLE_3 if name != "big"])
def test_it_has_the_parameters_of_table_3(name: str) -> None:
    row, published = TABLE_3[name]
    assert abs(millions_of(row) - published) <= 0.55  # rounded rows; our own symbols


def test_the_big_model_of_table_3_does_not_add_up() -> None:
    """Check that big and d=1024 differ only in the feed-forwards: by 50 million, in print by 45."""
    big, wide = (millions_of(TABLE_3[name][0]) for name in ("big", "C, d=1024"))
    assert big - wide == pytest.approx(12 * 2 * 1024 * 2048 / 1e6, abs=0.1)
    assert TABLE_3["big"][1] - TABLE_3["C, d=1024"][1] == 45


@pytest.mark.parametrize("mixer", [*MOST_IN_BATTERY, "conv+attention"])
def test_steps_equal_the_teacher_forced_form(mixer: str) -> None:
    """Compare on padded sources too, and on one that is all padding."""
    model = build(mixer)
    whole = model(TARGETS, None, SOURCES, MASK)
    assert whole.isfinite().all()
    state, logits = model.initial_state(3, model.encode(SOURCES, MASK)), []
    for read in TARGETS.unbind(dim=1):
        found, state = model.step(read, state)
        logits.append(found)
    torch.testing.assert_close(torch.stack(logits, dim=1), whole)


@pytest.mark.parametrize("mixer", MOST_IN_BATTERY)
def test_padding_of_source_and_target_is_never_read(mixer: str) -> None:
    model = build(mixer)
    whole = model(TARGETS, TARGET_MASK, SOURCES, MASK)
    garbage = model(
        TARGETS.masked_fill(~TARGET_MASK, -1), TARGET_MASK, SOURCES.masked_fill(~MASK, -1), MASK
    )
    assert torch.equal(whole[TARGET_MASK], garbage[TARGET_MASK])
    if mixer_class(mixer).mask_mode == "exact":
        shorter = model(TARGETS[1:2, :3], None, SOURCES[1:2, :4])
        torch.testing.assert_close(whole[1:2, :3], shorter)


@pytest.mark.parametrize("mixer", MOST_IN_BATTERY)
def test_a_beam_of_one_is_greedy_search(mixer: str) -> None:
    model, start = build(mixer), torch.ones(3, 1).long()
    given = {"context": SOURCES, "context_mask": MASK}
    greedy = generate(model, given, Decoder(max_length=10), start=start, end=0)
    state = model.initial_state(3, model.encode(**given))
    logits, state = model.step(start[:, 0], state)
    limits = torch.full((3,), 10)
    beam = beam_search(model, logits, state, Decoder(max_length=10), end=0, limits=limits)
    assert beam.rows() == greedy.rows()
    wide = generate(model, given, Decoder(beam=4, max_length=10), start=start, end=0)
    for row, written in enumerate(wide.rows()):  # each row keeps the states of its beams
        read = torch.tensor([[1, *written, 0]])[
            :, : int(wide.lengths[row] + wide.has_ended[row]) + 1
        ]
        steps = model(read[:, :-1], None, SOURCES[row : row + 1], MASK[row : row + 1])
        total = steps.log_softmax(dim=-1).gather(2, read[:, 1:, None]).sum()
        score = total / ((5 + read.shape[1] - 1) / 6) ** 0.6
        torch.testing.assert_close(wide.scores[row], score)


@pytest.mark.parametrize("context_mixer", ["attention", "plain_attention", "performer"])
def test_flops_by_formula_equal_the_counter(context_mixer: str) -> None:
    model, counter = build("conv", context_mixer=context_mixer), FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter, torch.no_grad():
        model(TARGETS, None, SOURCES)
    assert model.flops(TARGET, 3, SOURCE) == counter.get_total_flops()


def test_the_parts_of_two_stacks_start_apart_and_vocabularies_may_differ() -> None:
    by_shape: dict[torch.Size, list[Tensor]] = {}
    for parameter in build(source_symbols=13, tied="none").parameters():
        if parameter.unique().numel() > 1:
            by_shape.setdefault(parameter.shape, []).append(parameter)
    for alike in by_shape.values():
        for i, parameter in enumerate(alike):
            assert not any(torch.equal(parameter, other) for other in alike[:i])


def test_ties_save_their_matrices() -> None:
    counts = [build(tied=tied).num_parameters() for tied in ("none", "output", "all")]
    assert counts[0] - counts[1] == counts[1] - counts[2] == SYMBOLS * DIM


@pytest.mark.parametrize("knob", ["decoder_mixer", "context_mixer", "context_heads"])
def test_the_knobs_of_the_holes_fill_them(knob: str) -> None:
    value = {"decoder_mixer": "gru", "context_mixer": "performer", "context_heads": 2}[knob]
    model = build("attention", knobs={"heads": 8}, **{knob: value})
    block = model.decoder.blocks[0]
    found = (block.mixer.name, block.context_mixer.name, block.context_mixer.config.heads)
    expected = {"decoder_mixer": "attention", "context_mixer": "attention", "context_heads": 8}
    assert found == tuple((expected | {knob: value}).values())
    assert model.encoder.blocks[0].mixer.name == "attention"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"source_symbols": 12},
            "tied='all' needs equal sizes, not input_size=11, output_size=11,",
        ),
        ({"output_size": 12, "tied": "output"}, "tied='output' needs equal sizes, not input_size"),
        ({"context_mixer": "gru"}, "context_mixer='gru' takes no context"),
        ({"mixer": "fnet"}, "fnet cannot stand in translator, which is causal: "),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build(**changes)


def test_an_encoder_that_cannot_be_causal_takes_another_decoder() -> None:
    model = build("fnet", decoder_mixer="attention")
    assert model(TARGETS, None, SOURCES).shape == (3, TARGET, SYMBOLS)


def test_there_is_no_translation_without_a_source() -> None:
    with pytest.raises(ModelError, match="translator needs a context: the source"):
        build()(TARGETS)


@pytest.mark.parametrize(("depth", "layer"), [(1, 0), (2, 0), (4, 2)])
def test_weights_of_attention_are_of_the_layer_before_the_last(depth: int, layer: int) -> None:
    """Compare with the blocks in sequence, up to the context mixer of that layer."""
    model = build(depth=depth)
    given = TARGETS, TARGET_MASK, SOURCES, MASK
    weights = model.attention_weights(*given)
    encoded = model.encoder(model.embedding(SOURCES, MASK), MASK)
    x = model.decoder.position(model.embedding(TARGETS, TARGET_MASK))
    blocks: Any = model.decoder.blocks
    for block in blocks[:layer]:
        x = block(x, TARGET_MASK, encoded, MASK)
    block = blocks[layer]
    x = block.mixer_norm(x + block.mixer(x, TARGET_MASK))
    heads = block.context_mixer.attention_weights(x, None, encoded, MASK)
    assert heads.shape[1] == 4
    torch.testing.assert_close(weights[TARGET_MASK], heads.mean(dim=1)[TARGET_MASK])
    assert not block.context_mixer._forward_pre_hooks


def test_a_reversible_one_has_weights_too() -> None:
    model = build(norm_placement="pre", residual="reversible")
    weights = model.attention_weights(TARGETS, None, SOURCES)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, TARGET).double())
