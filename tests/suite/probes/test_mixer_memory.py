"""Test the peak memory of mixers against hand counts and formulas, and skipped lengths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import MIXERS, mixer_class
from bakeoff.models.mixer import Mixer
from bakeoff.suite.probes import mixer_memory
from bakeoff.suite.probes.mixer_memory import MixerMemory, free_bytes
from bakeoff.suite.schema import Measurement, Status
from tests.suite.probes.conftest import measured as numbers
from tests.suite.timing.subjects import alone, trial_of

DIM = 64


class Plain(Mixer):
    """Twice the input plus a gain per channel, so its memory can be counted by hand."""

    def __init__(self, *, dim: int, max_length: int, is_causal: bool, config: object) -> None:
        super().__init__(dim=dim, max_length=max_length, is_causal=is_causal, config=config)
        self.gain = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor, *others: Any) -> Tensor:  # type: ignore[override]
        return x * self.gain


class Square(Plain):
    """A mixer that materialises all pairwise scores and declares no memory formula."""

    lengths: list[int] = []  # noqa: RUF012 - what was tried, for the test to see

    def forward(self, x: Tensor, *others: Any) -> Tensor:  # type: ignore[override]
        self.lengths.append(x.shape[1])
        return (x @ x.mT) @ x * self.gain


def measured(mixer: str, length: int, **knobs: str | int) -> dict[str, Measurement]:
    return numbers(MixerMemory(), trial_of(alone(mixer, length, DIM, **knobs)))


def values(mixer: str, length: int, **knobs: str | int) -> dict[str, float]:
    found = measured(mixer, length, **knobs)
    assert all(each.status is Status.OK for each in found.values())
    return {name: each.value for name, each in found.items() if each.value is not None}


def test_what_a_product_holds_by_hand() -> None:
    """Forward holds the output; backward adds the gradients of output, input and gains."""
    found = values(f"{__name__}:Plain", 128)
    vectors = 4 * 128 * DIM
    assert found["forward_peak_bytes"] == vectors
    # output, its gradient, the input gradient, and the gain gradients before their reduction
    assert found["forward_backward_peak_bytes"] == pytest.approx(4 * vectors, rel=0.02)
    assert "forward_formula_bytes" not in found


WITH_FORMULA = [name for name in MIXERS if mixer_class(name).has_bytes_formula()]
# By default mixers of several kinds; the others in the battery.
BY_DEFAULT = ("attention", "gru", "fnet", "linear_transformer", "local_attention", "conv")
# The profiler is slow on a recurrence, which allocates a dozen small tensors per token.
LENGTHS = [
    (name, length)
    for name in WITH_FORMULA
    for length in ((256,) if mixer_class(name).family == "recurrent" else (256, 1024))
]


@pytest.mark.parametrize(
    ("mixer", "length"),
    [
        pytest.param(name, length, marks=[pytest.mark.battery] * (name not in BY_DEFAULT))
        for name, length in LENGTHS
    ],
)
def test_formula_and_allocator_agree(mixer: str, length: int) -> None:
    found = values(mixer, length)
    assert found["forward_formula_bytes"] == pytest.approx(found["forward_peak_bytes"], rel=0.05)
    model = bench_of(mixer, length).model
    parameters = 4 * sum(p.numel() for p in model.parameters())
    safe = mixer_memory._BACKWARD * found["forward_formula_bytes"] + parameters
    if any(isinstance(each, nn.Conv2d) for each in model.modules()):
        safe += 6 * 1024 * DIM  # workspace of its backward pass, independent of the length
    assert found["forward_peak_bytes"] < found["forward_backward_peak_bytes"] < safe


def bench_of(mixer: str, length: int, **knobs: str | int) -> mixer_memory._MemoryBench:
    return mixer_memory._MemoryBench(trial_of(alone(mixer, length, DIM, **knobs)), "cpu")


def test_a_device_other_than_a_cpu_refuses_nothing_in_advance() -> None:
    """Check on torch's device without memory, which like a GPU is not the CPU."""
    bench = mixer_memory._MemoryBench(trial_of(alone("attention", 4_096, DIM)), "meta")
    assert bench.formula(4_096) is None
    bench._refuse_by_half(lambda length: pytest.fail(f"{length} tokens were measured"), 4_096)
    assert bench_of("attention", 4_096).formula(4_096) is not None


@pytest.mark.parametrize("mixer", [name for name in MIXERS if name not in WITH_FORMULA])
def test_without_a_formula_the_allocator_alone_is_asked(mixer: str) -> None:
    found = values(mixer, 256)
    assert "forward_formula_bytes" not in found
    assert 0 < found["forward_peak_bytes"] < found["forward_backward_peak_bytes"]


@pytest.mark.slow
@pytest.mark.parametrize("mixer", WITH_FORMULA)
def test_formula_and_allocator_agree_at_4096(mixer: str) -> None:
    bench = bench_of(mixer, 4096)
    assert bench.formula(4096) == pytest.approx(bench.forward(4096), rel=0.05)


@pytest.mark.whole
def test_fused_attention_is_linear_and_materialised_is_not() -> None:
    found = {
        (kernel, length): bench_of("attention", length, kernel=kernel)
        for kernel in ("fused", "materialised")
        for length in (1024, 4096)
    }
    peaks = {at: bench.forward(at[1]) for at, bench in found.items()}
    for at, peak in peaks.items():
        assert found[at].formula(at[1]) == pytest.approx(peak, rel=0.05)
    assert peaks["fused", 4096] / peaks["fused", 1024] < 4.2
    assert peaks["materialised", 4096] / peaks["materialised", 1024] > 12


def test_measuring_again_gives_the_same_bytes() -> None:
    assert values("performer", 128) == values("performer", 128)


def test_what_the_formula_forbids_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use 65,536 tokens, for which the scores of four heads and their softmax take 128 GiB."""
    monkeypatch.setattr(mixer_memory, "free_bytes", lambda device: 10 * 2**30)
    found = measured("attention", 65536, kernel="materialised")
    assert found["forward_formula_bytes"].value == pytest.approx(128 * 2**30, rel=0.01)
    for metric in ("forward_peak_bytes", "forward_backward_peak_bytes"):
        assert found[metric].status is Status.OUT_OF_MEMORY
        assert found[metric].value is None
        assert "over 65536 tokens takes 128 GiB, more than 80%" in found[metric].reason
        assert found[metric].reason.endswith("of what is free (10 GiB)")


def test_without_a_formula_shorter_runs_say_what_would_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Extrapolate 4.5 MiB for 1,024 tokens to 18 MiB for 2,048, over the free 12.8 MiB."""
    monkeypatch.setattr(mixer_memory, "free_bytes", lambda device: 2**24)
    Square.lengths.clear()
    found = measured(f"{__name__}:Square", 8192)
    assert found["forward_peak_bytes"].status is Status.OUT_OF_MEMORY
    assert found["forward_backward_peak_bytes"].status is Status.OUT_OF_MEMORY
    assert "by what 1024 tokens take, 2048 may take 0.01" in found["forward_peak_bytes"].reason
    assert max(Square.lengths) == 1024


def test_backward_is_tried_where_six_times_the_formula_would_not_fit_but_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Use materialised attention, whose backward pass takes 1.5 times its formula."""
    bench_bytes = values("attention", 512, kernel="materialised")
    enough = 1.2 * bench_bytes["forward_backward_peak_bytes"] / mixer_memory._SHARE
    assert mixer_memory._BACKWARD * bench_bytes["forward_formula_bytes"] > enough
    monkeypatch.setattr(mixer_memory, "free_bytes", lambda device: int(enough))
    assert values("attention", 512, kernel="materialised") == bench_bytes


def test_what_runs_out_of_memory_all_the_same_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*arguments: object) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(mixer_memory, "growth_bytes", too_large)
    found = measured("conv", 64)
    assert found["forward_peak_bytes"].status is Status.OUT_OF_MEMORY
    assert "Tried to allocate" in found["forward_peak_bytes"].reason


def test_another_error_is_no_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> int:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(mixer_memory, "growth_bytes", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        measured("conv", 64)


MIB = 2**20


def machine(folder: Path, groups: str) -> Path:
    """Create a fake /proc with 100 MiB of available memory."""
    (folder / "self").mkdir(parents=True)
    (folder / "meminfo").write_text("MemTotal: 999999 kB\nMemAvailable: 102400 kB\n")
    (folder / "self" / "cgroup").write_text(groups)
    return folder


def second_version(limit: int | str, used: int, droppable: int = 0) -> dict[str, str]:
    """Return the files of a cgroup v2; the arguments are in MiB."""
    return {
        "memory.max": f"{limit * MIB if isinstance(limit, int) else limit}\n",
        "memory.current": f"{used * MIB}\n",
        "memory.stat": f"anon 7\ninactive_file {droppable * MIB}\n",
    }


FIRST_VERSION = {
    "memory.limit_in_bytes": f"{40 * MIB}",
    "memory.usage_in_bytes": f"{15 * MIB}",
}


@pytest.mark.parametrize(
    ("own_groups", "files", "free"),
    [
        ("0::/a\n", {"a": second_version("max", 5)}, 100),  # no limit
        ("0::/a/b\n", {"a/b": second_version(90, 10), "a": second_version(60, 50, 20)}, 30),
        ("4:cpu,cpuacct:/c\n3:memory:/a\n", {"memory/a": FIRST_VERSION}, 25),
        ("0::/\n", {".": second_version(40, 50)}, 0),  # usage above the limit
    ],
)
def test_the_tightest_limit_on_the_way_up_counts(
    own_groups: str, files: dict[str, dict[str, str]], free: int, tmp_path: Path
) -> None:
    for folder, contents in files.items():
        (tmp_path / "groups" / folder).mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (tmp_path / "groups" / folder / name).write_text(text)
    proc = machine(tmp_path / "proc", own_groups)
    assert free_bytes("cpu", proc, tmp_path / "groups") == free * MIB


def test_a_kernel_that_does_not_say_is_asked_for_its_free_pages(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n")
    (tmp_path / "meminfo").write_text("MemTotal: 999999 kB\n")
    page = os.sysconf("SC_PAGE_SIZE")
    assert 0 < free_bytes("cpu", tmp_path, tmp_path) <= os.sysconf("SC_PHYS_PAGES") * page


def test_this_machine_has_something_free_and_not_more_than_it_has() -> None:
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 64 * MIB < free_bytes("cpu") < installed
