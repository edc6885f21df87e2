"""Check that an architecture lists its interfaces, and the reasons why it lacks others."""

from __future__ import annotations

import pytest
from torch import Tensor, nn

from bakeoff.models import (
    ARCHITECTURES,
    Architecture,
    Input,
    Interface,
    ModelError,
    ModelSpec,
    PartSeeds,
    architecture_class,
)
from bakeoff.models.interface import Answer

TOKENS = Input(kind="tokens", size=5, length=8)
VECTORS = Input(kind="vectors", size=5, length=8)
IMAGE = Input(kind="image", size=3, length=64, grid=(8, 8))


class Bare(Architecture):
    """A model with the least that a network needs."""

    def build(self, seeds: PartSeeds) -> None:
        self.map = nn.Embedding(self.spec.input_size, self.spec.output_size)

    def forward(self, inputs: Tensor) -> Tensor:
        mapped: Tensor = self.map(inputs)
        return mapped


class Stepping(Bare):
    """A model with steps, so that it can decode."""

    def step(self) -> None:
        pass


def of(asks_for: Answer, **inputs: Input) -> Interface:
    return Interface(inputs={"inputs": TOKENS} | inputs, asks_for=asks_for, output_size=5)


@pytest.mark.parametrize(
    ("name", "interface", "said"),
    [
        ("classifier", of("class"), ""),
        ("classifier", of("number", inputs=VECTORS), ""),
        ("classifier", of("class", inputs=IMAGE), "takes tokens or vectors as inputs, not image"),
        ("classifier", of("next_symbols"), "gives class or number, not next_symbols"),
        ("classifier", of("class", context=TOKENS), "takes no context"),
        ("language_model", of("next_symbols"), ""),
        ("language_model", of("symbols"), "gives next_symbols, not symbols"),
        ("masked_language_model", of("symbols"), ""),
        ("pair_classifier", of("pair"), ""),
        ("vit", of("class", inputs=IMAGE), ""),
        ("vit", of("class"), "takes image as inputs, not tokens"),
    ],
)
def test_which_interface_it_can_serve(name: str, interface: Interface, said: str) -> None:
    assert architecture_class(name).why_not(interface) == said


def test_what_declares_nothing_may_be_asked_for_anything_but_a_sequence_without_steps() -> None:
    assert Bare.why_not(of("symbols")) == Bare.why_not(of("class", inputs=IMAGE)) == ""
    assert Bare.why_not(of("sequence")) == "has no step, so it cannot write a sequence"
    assert Stepping.why_not(of("sequence")) == ""


def test_only_what_has_steps_and_answers_with_next_symbols_or_a_sequence_can_write() -> None:
    assert {name for name in ARCHITECTURES if architecture_class(name).can_write()} == {
        "language_model",
        "translator",
        "seq2seq",
        "attentive_seq2seq",
        "conv_seq2seq",
        "bytenet",
        "captioner",
        "show_attend_tell",
    }
    assert Stepping.can_write()
    assert not Bare.can_write()


def test_a_bare_network_needs_no_sizes_but_those_of_its_inputs() -> None:
    spec = ModelSpec(
        architecture="mine:Bare", length=8, input_kind="tokens", input_size=5, output_size=7
    )
    assert Bare(spec).num_parameters() == 35
    assert not Bare.has_flops_formula()
    with pytest.raises(ModelError, match="mine:Bare defines no flops"):
        Bare(spec).flops(8)


def test_a_spec_with_several_inputs_is_read_back_and_old_ones_are_spelt_as_before() -> None:
    one = ModelSpec(
        architecture="vit",
        length=64,
        input_kind="image",
        input_size=3,
        output_size=7,
        grid=(8, 8),
        others={"context": TOKENS, "picture": IMAGE},
    )
    assert ModelSpec.of_spelling(one.spelling) == one
    assert list(one.inputs) == ["inputs", "context", "picture"]
    plain = ModelSpec(
        architecture="tagger", length=8, input_kind="tokens", input_size=5, output_size=7
    )
    assert not {"grid", "others", "architecture"} & set(plain.fields)
