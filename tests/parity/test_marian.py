"""Check that our translator equals MarianMT of `transformers`, and that both beams agree.

The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import pytest
import torch

from bakeoff.models.decoding import Decoder, generate
from tests.benchmarks.marian import marian_of, translator

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the package raises warnings about its own parts
]

SOURCE, TARGET, SYMBOLS = 9, 12, 11
SHAPE = {
    "dim": 16,
    "depth": 2,
    "heads": 4,
    "symbols": SYMBOLS,
    "source": SOURCE,
    "target": TARGET + 1,
}
MASK = torch.arange(SOURCE) < torch.tensor([[SOURCE], [4], [1]])
SOURCES = torch.randint(2, SYMBOLS, (3, SOURCE), generator=torch.Generator().manual_seed(2))
TARGETS = torch.randint(2, SYMBOLS, (3, TARGET), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-5), (torch.float64, 1e-9)])
def test_logits_are_those_of_marian(dtype: torch.dtype, within: float) -> None:
    ours = translator(**SHAPE).to(dtype)
    theirs = marian_of(ours)
    with torch.no_grad():
        found = ours(TARGETS, None, SOURCES, MASK)
        expected = theirs(input_ids=SOURCES, attention_mask=MASK, decoder_input_ids=TARGETS).logits
    assert found.std() > 0.5
    torch.testing.assert_close(found, expected, rtol=0, atol=within)


@pytest.mark.parametrize("beam", [1, 4])
def test_both_searches_write_the_same(beam: int) -> None:
    """Compare without an end symbol, so that implementations of a beam search cannot differ."""
    ours = translator(**SHAPE).double()
    ours.decoder.blocks[-1].mlp_norm.weight.data.neg_()  # else its tied output repeats itself
    decoder = Decoder(beam=beam, max_length=TARGET)
    found = generate(
        ours,
        {"context": SOURCES, "context_mask": MASK},
        decoder,
        start=torch.ones(3, 1).long(),
        end=None,
    )
    expected = marian_of(ours).generate(
        input_ids=SOURCES,
        attention_mask=MASK,
        num_beams=beam,
        do_sample=False,
        min_new_tokens=TARGET,
        max_new_tokens=TARGET,
    )
    assert torch.equal(found.tokens, expected[:, 1:])
    assert len(found.tokens.unique()) > 2
