"""Compare decoding with states to a full re-read of the prefix, and to transformers.

The ratios compare two pieces of work that run in turns in one process. Both sides write the same
tokens, which is checked before either is timed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import ARCHITECTURES, Input, ModelSpec, architecture_class, build_model
from bakeoff.models.decoding import Decoder, generate
from tests.benchmarks.interleaved import Limits, Ratio, TimingRun
from tests.benchmarks.marian import WHY_NOT, marian_of, translator

pytestmark = [
    pytest.mark.bench,
    pytest.mark.filterwarnings("default"),  # the package raises warnings about its own parts
]

BATCH, SOURCE, WRITTEN, SYMBOLS, DIM, DEPTH, HEADS = 8, 64, 64, 1_000, 256, 3, 8
AT_LEAST = 5.0  # times as fast with states
AT_MOST = 1.2  # times the duration of transformers
BEAM = 4
LIMITS = Limits(
    warm_up_rounds=1,
    warm_up_seconds=0.0,
    least_rounds=5,
    most_rounds=15,
    seconds=10.0,
    patience=60.0,
    half_width=0.03,
)
OTHER_FORMS = {
    "attentive_seq2seq": [
        {"form": "luong", "score": "general"},
        {"form": "luong", "score": "general", "has_input_feeding": True},
    ]
}
WRITERS = [
    pytest.param(name, settings, id="-".join([name, *map(str, settings.values())]))
    for name in ARCHITECTURES
    if architecture_class(name).can_write() and "context" in architecture_class(name).reads
    for settings in ({}, *OTHER_FORMS.get(name, []))
]


@pytest.fixture(autouse=True)
def all_cores() -> Iterator[None]:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    yield
    torch.set_num_threads(num_threads)


def writer(name: str, settings: dict[str, Any]) -> Any:
    kind = architecture_class(name)
    sizes = {"mixer": "attention", "position": "sinusoidal", "dim": DIM, "depth": DEPTH}
    torch.manual_seed(0)
    spec = ModelSpec(
        architecture=name,
        knobs={"heads": HEADS} if "mixer" in kind.takes else {},
        input_kind="tokens",
        input_size=SYMBOLS,
        output_size=SYMBOLS,
        length=WRITTEN + 1,
        others={"context": Input(kind="tokens", size=SYMBOLS, length=SOURCE)},
        settings=settings,
        **{key: value for key, value in sizes.items() if key in kind.takes},
    )
    return build_model(spec).eval()


def given_sources() -> Tensor:
    return torch.randint(2, SYMBOLS, (BATCH, SOURCE), generator=torch.Generator().manual_seed(1))


def start() -> Tensor:
    return torch.ones(BATCH, 1, dtype=torch.long)


@torch.no_grad()
def read_all_again(model: Any, sources: Tensor) -> Tensor:
    """Decode greedily by `forward` alone, which reads the whole source and prefix at each step."""
    tokens = start()
    for _ in range(WRITTEN):
        newest = model(tokens, context=sources)[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, newest], dim=1)
    return tokens[:, 1:]


def ratio(
    benchmark: Any, what: str, one: Callable[[], Tensor], other: Callable[[], Tensor]
) -> Ratio:
    """Check that both write the same; return the time of `one` divided by that of `other`."""
    assert torch.equal(one(), other())
    timing_run = TimingRun({"one": one, "other": other}, LIMITS)
    times = benchmark.pedantic(timing_run.run, rounds=1, iterations=1)
    found: Ratio = times.ratio("one", "other")
    benchmark.extra_info |= {"ratio": found.value, "low": found.low, "high": found.high}
    seconds = ", ".join(f"{1e3 * times.median(each):.3g} ms" for each in ("one", "other"))
    print(f"\n{what}: {found} ({seconds}); load {os.getloadavg()[0]:.1f}")
    return found


@pytest.mark.parametrize(("name", "settings"), WRITERS)
def test_states_are_faster_than_reading_all_again(
    name: str, settings: dict[str, Any], benchmark: Any
) -> None:
    model, sources = writer(name, settings), given_sources()

    def step_by_step() -> Tensor:
        decoder = Decoder(max_length=WRITTEN)
        return generate(model, {"context": sources}, decoder, start=start(), end=None).tokens

    found = ratio(
        benchmark,
        f"{name} {settings}, all again / by states",
        lambda: read_all_again(model, sources),
        step_by_step,
    )
    assert found.high > AT_LEAST


def test_beam_search_beside_transformers(benchmark: Any) -> None:
    """Compare on padded sources of 32 to 64 tokens, with a beam of four and no end symbol."""
    pytest.importorskip("transformers", reason=WHY_NOT)
    ours = translator(
        dim=DIM, depth=DEPTH, heads=HEADS, symbols=SYMBOLS, source=SOURCE, target=WRITTEN + 1
    )
    theirs, sources = marian_of(ours), given_sources()
    mask = torch.arange(SOURCE) < torch.linspace(SOURCE // 2, SOURCE, BATCH).unsqueeze(1)

    def by_ours() -> Tensor:
        given = {"context": sources, "context_mask": mask}
        decoder = Decoder(beam=BEAM, max_length=WRITTEN)
        return generate(ours, given, decoder, start=start(), end=None).tokens

    def by_theirs() -> Tensor:
        written: Tensor = theirs.generate(
            input_ids=sources,
            attention_mask=mask,
            num_beams=BEAM,
            do_sample=False,
            use_cache=True,
            min_new_tokens=WRITTEN,
            max_new_tokens=WRITTEN,
        )
        return written[:, 1:]

    found = ratio(benchmark, "beam search, ours / transformers", by_ours, by_theirs)
    assert found.low < AT_MOST
