"""Test the contract of a task on every registered task."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff import models
from bakeoff.models.interface import IMAGE_TOKENS, IMAGE_VECTOR, PLACES, SCALE, TEXT_VECTOR, Outputs
from bakeoff.models.registry import architecture_class
from bakeoff.suite.tasks.emoji.reading import PicturesRight
from bakeoff.suite.tasks.metrics import PlayedMetric
from bakeoff.suite.tasks.pretraining.masked_words import HiddenWordBits
from bakeoff.suite.tasks.registry import TASKS, build_task, task_class
from bakeoff.suite.tasks.sequence_metrics import SacrebleuMetric, SequenceMetric
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split, Task, TaskError
from tests.suite.tasks.own.laws import small_model

LENGTH = 96  # for tasks of any length; divides neither split, so incomplete batches are tested too
SPLITS: tuple[Split, ...] = ("validation", "test")
WORLDS = ("corridor", "windy_grid", "cart_pole")
OF_PICTURES = ("image", "drawing")  # values of `asks_for` where targets are pictures
ROOT = Path(__file__).parents[3]
one_split = pytest.mark.parametrize(
    "split", ["test", pytest.param("validation", marks=pytest.mark.battery)]
)

# A program for a separate process: task name -> digest of some training batches.
BATCH_DIGESTS = """
import json, sys
from tests.suite.tasks.test_contract import batch_digest
from bakeoff.suite.tasks.registry import build_task
asked = json.loads(sys.argv[1])
print(json.dumps({name: batch_digest(build_task(name, length)) for name, length in asked.items()}))
"""


# Tasks whose data must be fetched have separate tests on generated data.
AT_HAND = [name for name in TASKS if not task_class(name).source.is_fetched]


# Tasks that differ from another one only in their texts, their players, a share or a size: their
# classes have the same code. `make battery` checks them.
VARIANTS = {
    "bible_en_fr",
    "pathfinder",
    "pathfinder_x",
    "definitions_masked_5",
    "definitions_masked_40",
    "definitions_masked_only",
    "wikipedia_masked",
    "plays_masked",
    "english_masked",
    "glosses_in_words",
    *(f"{world}_{player}" for world in WORLDS for player in ("random", "medium", "expert")),
    "windy_grid_best_tenth",
    "cart_pole_best_tenth",
}


# Tasks that share the data and most of the code of another one; `make battery` checks them too.
OF_SHARED_SPLITS = {
    "shakespeare_tragedies",
    "shakespeare_act",
    "fashion_mnist_pixels",
    "fashion_mnist_patches",
    "fashion_mnist_14",
    "fashion_mnist_corrupted",
    "openmoji_groups_16",
    "definitions_next",
    "definitions_spans",
    "definitions_pairs",
    "reviews_in_words",
    "windy_grid_mixed",
    "cart_pole_mixed",
    "emoji_pairs",
}


def _params() -> list[Any]:
    """Return the tasks, with a marker on those of the battery."""
    rest = VARIANTS | OF_SHARED_SPLITS
    return [pytest.param(n, marks=[pytest.mark.battery] * (n in rest)) for n in AT_HAND]


@pytest.fixture(params=_params())
def task(request: pytest.FixtureRequest) -> Task:
    return _task(request.param)


@cache
def _task(name: str) -> Task:
    return build_task(name, task_class(name).fixed_length or LENGTH)


def _tensors(batch: Batch) -> tuple[Tensor, ...]:
    no_mask = torch.ones(len(batch.targets), 1).bool()
    inputs = dict(batch.inputs)
    return inputs.pop("inputs"), batch.targets, inputs.pop("mask", no_mask), *inputs.values()


def _same(a: Batch, b: Batch) -> bool:
    return all(torch.equal(x, y) for x, y in zip(_tensors(a), _tensors(b), strict=True))


def batch_digest(task: Task) -> str:
    digest = hashlib.sha256()
    for step in (7, 0, 500):
        for tensor in _tensors(task.training_batch(step, 8, seed=3)):
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def _digests_elsewhere(names: Iterable[str]) -> dict[str, str]:
    """Return the digests from another process."""
    lengths = {name: _task(name).length for name in names}
    other = subprocess.run(
        [sys.executable, "-c", BATCH_DIGESTS, json.dumps(lengths)],
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "PYTHONHASHSEED": "7",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        },
    )
    found: dict[str, str] = json.loads(other.stdout)
    return found


def _is_scored(targets: Tensor) -> Tensor:
    return targets != UNSCORED


def test_a_task_says_what_it_is(task: Task) -> None:
    assert TASKS[task.name].endswith(f":{type(task).__name__}")
    assert task.version >= 1
    assert task.metric.name
    assert task.metric.unit
    assert task.metric.better in {"higher", "lower"}
    assert task.source.title
    assert task.source.licence
    assert task.source.origin
    assert task.architecture in models.ARCHITECTURES


def test_a_batch_has_the_shapes_and_types_that_the_task_announces(task: Task) -> None:
    for batch in (task.training_batch(0, 5, seed=0), next(task.held_out("test", 5))):
        inputs = batch.inputs["inputs"]
        if task.input_kind == "tokens":
            num_texts = {"pair": 2, "choice": inputs.shape[1]}.get(task.asks_for)
            assert inputs.shape == (5, *[num_texts] * (num_texts is not None), task.length)
            assert inputs.dtype == torch.int64
            assert 0 <= inputs.min() <= inputs.max() < task.input_size
        else:
            assert inputs.shape == (5, *(task.grid or (task.length,)), task.input_size)
            assert inputs.dtype == torch.float32
            assert inputs.isfinite().all()
        scored = batch.targets[_is_scored(batch.targets)]
        if task.asks_for in OF_PICTURES:
            picture = task.interface(task.length).inputs["inputs" if task.grid else "context"]
            assert batch.targets.shape == (5, *(picture.grid or ()), task.output_size)
        else:
            places = task.interface(task.length).inputs.get(PLACES)
            answers = task.length if places is None else places.length
            assert batch.targets.shape in {(5,), (5, answers)}
        if task.asks_for in {"number", *OF_PICTURES}:
            assert batch.targets.dtype == torch.float32
            assert scored.isfinite().all()
        else:
            assert batch.targets.dtype == torch.int64
            assert 0 <= scored.min() <= scored.max() < task.output_size


def test_an_epoch_is_as_long_as_the_task_says(task: Task) -> None:
    """Check that an epoch has each example once and a batch across its end begins the next."""
    count = task.num_training_examples()
    if count is None:
        return
    whole = task.training_batch(0, count, seed=5)
    again = task.training_batch(1, count, seed=5)
    assert not torch.equal(whole.inputs["inputs"], again.inputs["inputs"])
    rows = [
        sorted(row.numpy().tobytes() for row in each.inputs["inputs"]) for each in (whole, again)
    ]
    assert rows[0] == rows[1]


def test_padding_stands_behind_what_is_real(task: Task) -> None:
    for batch in (task.training_batch(0, 64, seed=0), next(task.held_out("test", 64))):
        assert task.is_padded == ("mask" in batch.inputs)
        if not task.is_padded:
            continue
        inputs, mask = batch.inputs["inputs"], batch.inputs["mask"]
        assert mask.dtype == torch.bool
        assert mask.shape == inputs.shape[: mask.ndim]
        assert mask[..., 0].all()
        assert (mask[..., 1:] <= mask[..., :-1]).all()
        assert (inputs[~mask] == 0).all()
    assert not task.is_padded or not mask.all(), "a task without padding needs no mask"


def test_the_model_that_the_task_names_by_default_serves_it(task: Task) -> None:
    """Check for example that a model that ties its output to its embedding has room for both."""
    takes = architecture_class(task.architecture).takes
    parts = {"mixer": "attention", "position": "learned", "dim": 16, "depth": 1}
    model = small_model(task, **{name: part for name, part in parts.items() if name in takes})
    batch = task.training_batch(0, 2, seed=0)
    loss = task.loss(batch.through(model), batch)
    assert loss.isfinite()


def test_a_batch_has_the_inputs_that_the_task_announces(task: Task) -> None:
    announced = task.interface(task.length).inputs
    for batch in (task.training_batch(0, 5, seed=0), next(task.held_out("test", 5))):
        masks = {name for name in batch.inputs if name.endswith("mask")}
        assert batch.inputs.keys() - masks == announced.keys()
        for name, each in announced.items():
            found = batch.inputs[name]
            if each.kind == "tokens":
                assert found.dtype == torch.int64
                assert found.shape[-1] <= each.length
                assert 0 <= found.min() <= found.max() < each.size
            else:
                assert found.shape[-1] == each.size


def test_a_training_batch_asks_something_of_every_row(task: Task) -> None:
    targets = task.training_batch(0, 64, seed=0).targets
    assert _is_scored(targets.reshape(64, -1)).any(dim=1).all()


def test_a_training_batch_is_a_function_of_seed_and_step(task: Task) -> None:
    first = task.training_batch(11, 6, seed=2)
    task.training_batch(12, 6, seed=2)
    first_again = build_task(task.name, task.length).training_batch(11, 6, seed=2)
    assert _same(first, first_again)


def test_training_batches_differ_between_steps_and_seeds(task: Task) -> None:
    keys = [(seed, step) for seed in range(4) for step in range(4)]
    batches = [task.training_batch(step, 4, seed) for seed, step in keys]
    inputs = {batch.inputs["inputs"].numpy().tobytes() for batch in batches}
    assert len(inputs) == len(keys)


def test_the_random_state_of_the_process_does_not_matter_and_stays(task: Task) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = task.training_batch(3, 6, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert _same(first, task.training_batch(3, 6, seed=0))


# Tasks, and lengths, with the digests of their batches.
RECORDED = [
    ("listops", 64, "824b44c72199733b"),
    ("mqar_small", 64, "dc925af15d7b3a7e"),
    ("parity", 64, "02781cec72f98a04"),
    ("selective_copying", 64, "ea671f609b481cfc"),
    ("shakespeare_masked", 64, "31c4da99048c2eb6"),
    ("pathfinder", 1_024, "0fcde9fc3c010c69"),
    ("pathfinder_small", 256, "9a2c2c0e3f0c5348"),
    ("pathfinder_x", 16_384, "c6a63122569705f4"),
    ("duplication", 96, "6f3810e4e2657879"),
    ("needle", 96, "d6e8895a75abcdc5"),
    ("needles", 96, "adb34f92ddfd8152"),
    ("variable_tracking", 96, "ffb143e0774acaca"),
    ("retrieval", 96, "60a10b7dbf5694dc"),
    ("sort_of_clevr", 66, "8e74cacd96af52d1"),
    ("emoji_scenes", 19, "77d2dbf4ea73cab4"),
    ("emoji_questions", 7, "b8ed31639feeb4be"),
    ("emoji_pictures", 2_304, "eb8bb4eb6d0d6667"),
    ("emoji_tokens", 19, "2fe45352bdd5fb18"),
    ("corridor_mixed", 20, "344d745ec533714c"),
    ("corridor_best_tenth", 20, "57f880c9e8b40108"),
    ("windy_grid_mixed", 20, "c4f7bf245498057a"),
    ("cart_pole_mixed", 20, "057d86d56d91ba35"),
]
# The recorded digests are of other processes already; these data take seconds to read.
READ_SLOWLY = ("bible", "english_texts", "wordnet_glosses")


@pytest.mark.slow
def test_another_process_sees_the_same_batches() -> None:
    names = set(AT_HAND) - VARIANTS - {name for name, *_ in RECORDED}
    names = {name for name in names if task_class(name).source.name not in READ_SLOWLY}
    assert _digests_elsewhere(names) == {name: batch_digest(_task(name)) for name in names}


@pytest.mark.slow
def test_another_process_sees_the_same_batches_of_every_task() -> None:
    assert _digests_elsewhere(AT_HAND) == {name: batch_digest(_task(name)) for name in AT_HAND}


@pytest.mark.parametrize(("name", "length", "digest"), RECORDED)
def test_what_is_drawn_stays_what_it_was(name: str, length: int, digest: str) -> None:
    """Compare with recorded digests; earlier results were trained on these batches."""
    assert batch_digest(build_task(name, length)).startswith(digest)


def test_a_batch_may_be_overwritten_without_harm_to_the_next(task: Task) -> None:
    for batch_again in (
        lambda: task.training_batch(0, 4, seed=0),
        lambda: next(task.held_out("test", 4)),
    ):
        batch = batch_again()
        kept = batch.map(Tensor.clone)
        for tensor in _tensors(batch):
            tensor.zero_()
        assert _same(batch_again(), kept)


@one_split
def test_a_split_is_whole_and_in_the_same_order_at_every_batch_size(
    task: Task, split: Split
) -> None:
    by_37 = list(task.held_out(split, 37))
    by_512 = list(task.held_out(split, 512))
    assert {len(batch.targets) for batch in by_37[:-1]} == {37}
    assert 1 <= len(by_37[-1].targets) <= 37
    for field in range(len(_tensors(by_37[0]))):
        a = torch.cat([_tensors(batch)[field] for batch in by_37])
        b = torch.cat([_tensors(batch)[field] for batch in by_512])
        assert torch.equal(a, b)


# The share of held-out examples that may also be in other splits. Scenes of two objects in few
# positions repeat if both pairs of objects are in training; articles share lines that fill a
# window; definitions differ in a word that training does not have, as in "american <unknown>"; the
# Bible repeats some verses.
SHARED = {
    "wikipedia_bytes": 0.005,
    "wordnet_glosses": 0.025,
    "retrieval": 0.002,
    "glosses_in_words": 0.04,
    "reviews_in_words": 0.01,
    "emoji_pictures": 0.01,
    "emoji_tokens": 0.01,
}


def test_the_splits_share_no_example_with_each_other_or_with_training(
    task: Task,
) -> None:
    seen = {split: _rows(task.held_out(split, 512)) for split in SPLITS}
    num_batches = 10 if task.length <= 1_024 else 2
    training = _rows(task.training_batch(step, 500, seed=0) for step in range(num_batches))
    assert len(seen["validation"] & seen["test"]) <= SHARED.get(task.name, 0) * len(seen["test"])
    for held_out in seen.values():
        assert len(training & held_out) <= SHARED.get(task.name, 0) * len(held_out)


def _rows(batches: Iterable[Batch]) -> set[bytes]:
    """Return a digest of each example's first input, or of the picture of a picture with words.

    For episodes to be played it is the digest of their random numbers, since there are few start
    states; each has one example for each return that is asked for.
    """
    return {
        hashlib.sha256(row.numpy().tobytes()).digest()
        for batch in batches
        for row in (_pictures(batch) if batch.chances is None else batch.chances)
    }


def _pictures(batch: Batch) -> Tensor:
    context = batch.inputs.get("context")
    has_picture = context is not None and context.is_floating_point()
    return batch.inputs["context" if has_picture else "inputs"]


@one_split
def test_batch_size_does_not_change_the_score(task: Task, split: Split) -> None:
    table = torch.randn(1009, task.output_size, generator=torch.Generator().manual_seed(0))
    if task.asks_for in OF_PICTURES:
        table = task.training_batch(0, 64, seed=0).targets

    def sums(batch_size: int) -> Tensor:
        if isinstance(task.metric, PlayedMetric):
            return sum(
                task.metric.sums(Outputs(batch.chances[:, 1, :1]), batch)
                for batch in _batches(task, split, batch_size)
            )
        return sum(
            # The predictor handles each row alone: its logits are a hash of the row's inputs.
            task.metric.sums(Outputs(table[_hash_rows(batch, task) % len(table)]), batch)
            for batch in _batches(task, split, batch_size)
        )

    torch.testing.assert_close(sums(30), sums(120), rtol=1e-12, atol=0)


def _batches(task: Task, split: Split, batch: int) -> Iterator[Batch]:
    """Return the first rows of the split; for many outputs fewer, whose logits are large."""
    return islice(task.held_out(split, batch), (240 if task.output_size < 200 else 120) // batch)


def _hash_rows(batch: Batch, task: Task) -> Tensor:
    """Return one integer per target, computed only from the inputs in its row."""
    inputs = batch.inputs["inputs"]
    if task.asks_for in OF_PICTURES and task.grid is None:  # captions may repeat
        inputs = batch.inputs["context"]
    if batch.targets.dim() == 2:
        hashed = (inputs * 31 + inputs.roll(1, dims=1)) % 1009
        return hashed.gather(1, batch.inputs[PLACES]) if PLACES in batch.inputs else hashed
    return (inputs.double().flatten(1).sum(dim=1).abs() * 1000).round().long()


def test_a_perfect_predictor_gets_the_best_score(task: Task) -> None:
    most = 100.0 if isinstance(task.metric, SacrebleuMetric) else 1.0
    best = {"higher": most, "lower": 0.0}[task.metric.better]
    batch = task.training_batch(0, 8, seed=0)
    outputs = _perfect_outputs(task, batch)
    is_played = isinstance(task.metric, PlayedMetric)
    sums = task.metric.sums(Outputs(torch.ones(8, 1)) if is_played else outputs, batch)
    assert sums.dtype == torch.float64
    assert sums.device.type == "cpu"
    # other metrics have separate tests
    is_sum = not isinstance(task.metric, SacrebleuMetric | HiddenWordBits)
    if is_sum:
        counts_rows = isinstance(task.metric, SequenceMetric | PicturesRight | PlayedMetric)
        assert sums[1] == (len(batch.targets) if counts_rows else _is_scored(batch.targets).sum())
    assert task.metric.value(sums) == pytest.approx(best, abs=1e-9)
    if task.asks_for == "drawing":
        tokens = torch.arange(8)[:, None]
        outputs = Outputs(1000.0 * torch.eye(8)[tokens], {IMAGE_TOKENS: tokens})
    assert task.loss(outputs, batch).item() == 0.0


def _perfect_outputs(task: Task, batch: Batch) -> Outputs:
    if task.asks_for in OF_PICTURES:
        return Outputs(batch.targets)
    if task.asks_for == "number":
        return Outputs(batch.targets[..., None])
    known = torch.nn.functional.one_hot(batch.targets.clamp(min=0), task.output_size)
    rows = torch.eye(len(batch.targets))  # each image is similar only to its own text
    vectors = {IMAGE_VECTOR: rows, TEXT_VECTOR: rows[:, None], SCALE: 1000.0 * rows.amax(dim=1)}
    return Outputs(1000.0 * known.float(), vectors if task.compares_examples else {})


def test_the_loss_is_the_mean_cross_entropy_in_nats_or_squared_error(task: Task) -> None:
    if (
        task.compares_examples or task.name == "definitions_pairs"
    ):  # these have separate tests with explicit targets
        return
    batch = task.training_batch(0, 3, seed=0)
    outputs = _drawn_outputs(task, batch).requires_grad_()
    tokens = {IMAGE_TOKENS: torch.arange(3)[:, None]} if task.asks_for == "drawing" else {}
    outputs = torch.randn(3, 1, 5, requires_grad=True) if tokens else outputs
    loss = task.loss(Outputs(outputs, tokens), batch)
    loss.backward()
    by_hand = _losses(task, outputs, batch)
    by_hand = by_hand.mean() if tokens else by_hand[_is_scored(batch.targets)].mean()
    assert loss.shape == ()
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    assert outputs.grad is not None
    assert outputs.grad.abs().sum() > 0


def _drawn_outputs(task: Task, batch: Batch) -> Tensor:
    """Return random outputs in the scored shape; for pictures, those of the next examples."""
    if task.asks_for in OF_PICTURES:
        return batch.targets.roll(1, dims=0)
    drawn = torch.Generator().manual_seed(0)
    return torch.randn(*batch.targets.shape, task.output_size, generator=drawn)


def _judged_outputs(task: Task, batch: Batch) -> Tensor:
    """Return random outputs; for episodes, possible returns."""
    outputs = _drawn_outputs(task, batch)
    return outputs[:, 0, :1] if isinstance(task.metric, PlayedMetric) else outputs


def _losses(task: Task, outputs: Tensor, batch: Batch) -> Tensor:
    """Return the loss of each target."""
    if task.asks_for == "number":
        return (outputs[..., 0] - batch.targets).square()
    if task.asks_for == "image":
        return (outputs - batch.targets).square()
    if task.asks_for == "drawing":
        return -outputs.log_softmax(-1).diagonal(dim1=0, dim2=2)
    asked = batch.targets.clamp(min=0)[..., None]
    return -outputs.log_softmax(-1).gather(-1, asked)[..., 0]


def test_the_parts_of_a_score_are_those_that_the_task_announces(task: Task) -> None:
    for batch in (task.training_batch(0, 6, seed=0), next(task.held_out("test", 6))):
        parts = task.in_parts(batch)
        assert tuple(parts) == task.parts()
        for at, is_in_part in parts.items():
            name, _, value = at.partition("=")
            assert name.isidentifier()
            if name != task.aimed_at:  # the parts of `aimed_at` may have any number as a name
                assert int(value) > 0
            assert is_in_part.shape == batch.targets.shape
            assert is_in_part.dtype == torch.bool


def test_each_part_of_a_score_has_targets_in_every_split_and_none_has_two(
    task: Task,
) -> None:
    for split in SPLITS:
        counts = dict.fromkeys(task.parts(), 0)
        for batch in task.held_out(split, 256):
            is_scored, parts = _is_scored(batch.targets), task.in_parts(batch)
            for at, is_in_part in parts.items():
                counts[at] += int((is_in_part & is_scored).sum())
            assert not parts or (sum(part.int() for part in parts.values()) <= 1).all()
        assert all(counts.values())


def test_a_target_that_is_not_asked_for_counts_for_nothing(task: Task) -> None:
    batch = task.training_batch(0, 6, seed=0)
    outputs = _judged_outputs(task, batch)
    if task.asks_for in OF_PICTURES:  # the last picture is right
        outputs = torch.cat([outputs[:-1], batch.targets[-1:]])
    whole = task.metric.sums(Outputs(outputs), batch)
    is_first = torch.arange(6) < 4
    first, last = (
        task.metric.sums(Outputs(outputs), batch.only(is_asked))
        for is_asked in (is_first, ~is_first)
    )
    torch.testing.assert_close(first + last, whole, rtol=1e-12, atol=0)
    assert not torch.equal(first, whole)


def test_a_score_is_nan_where_a_logit_is(task: Task) -> None:
    batch = task.training_batch(0, 3, seed=0)
    outputs = torch.zeros_like(_judged_outputs(task, batch))
    outputs[0, ..., 0] = torch.nan
    value = task.metric.value(task.metric.sums(Outputs(outputs), batch))
    assert value != value


@pytest.mark.parametrize("length", [0, -5, 10**9])
def test_a_length_that_cannot_be_is_refused_in_one_sentence(task: Task, length: int) -> None:
    with pytest.raises(TaskError, match=rf"{task.name}: .*length must be .* not {length}$"):
        build_task(task.name, length)


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("listops", "16 to 8192 tokens", (15, 8_193)),
        ("parity", "2 to 16384 bits", (1, 16_385)),
        ("mqar", "an even number of 32 to 16384 tokens", (30, 65, 16_386)),
        ("selective_copying", "32 to 16384 tokens", (31, 16_385)),
        ("shakespeare_plays", "1 to 8192 bytes", (8_193,)),
        ("fashion_mnist_pixels", "784", (128, 49)),
        ("fashion_mnist_patches", "49", (784,)),
        ("imdb", "1 to 16384 bytes", (0, 16_385)),
        ("movie_reviews", "1 to 512 words", (513,)),
        ("wikipedia_bytes", "1 to 1048576 tokens", (1_048_577,)),
    ],
)
def test_a_refused_length_is_answered_with_the_allowed_ones(
    name: str, allowed: str, refused: tuple[int, ...]
) -> None:
    for length in refused:
        with pytest.raises(TaskError, match=f"length must be {allowed}, not {length}$"):
            build_task(name, length)


def test_tokens_are_text_or_nothing_wherever_they_are_cut(task: Task) -> None:
    if task.input_kind != "tokens":
        assert task.text([]) == ""
        return
    inputs = next(iter(task.held_out("validation", 1))).inputs["inputs"][0].flatten()
    text = task.text(inputs.tolist())
    assert text == "" or text.strip()
    assert text.startswith(task.text(inputs[:5].tolist()))
    assert len(task.text(inputs[:5].tolist())) == 5 or not task.characters
