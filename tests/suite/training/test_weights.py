"""Test initialisation from final weights: what is loaded, what is kept, what is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelSpec, build_model
from bakeoff.models.positions.absolute import LearnedGridPosition, LearnedPosition
from bakeoff.suite.errors import CheckpointError
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import Exercise, train_resuming
from bakeoff.suite.training.weights import FINAL, keep_weights, restore, take_over, why_no_weights
from tests.suite.toy import FirstToken, Reader, training

TRIAL = "ab" * 16


class Net(nn.Module):
    """A model with a shared part, a head of given size, and one tensor under two names."""

    def __init__(self, num_classes: int = 3) -> None:
        super().__init__()
        self.trunk = nn.Linear(2, 2)
        self.tied = self.trunk
        self.norm = nn.BatchNorm1d(2)
        self.head = nn.Linear(2, num_classes)


class Seeing(nn.Module):
    """The positions of a model on an image grid, after that of a class token."""

    def __init__(self, grid: tuple[int, int] | None, length: int, dim: int = 3) -> None:
        super().__init__()
        self.trunk = nn.Linear(2, 2)
        self.position = LearnedPosition(dim=dim, max_length=length, grid=grid)
        self.twofold = LearnedGridPosition(dim=dim, max_length=length, grid=grid)


def _kept(folder: Path, model: nn.Module) -> None:
    keep_weights(folder, TRIAL, LocalEngine(model, training(3), "cpu").weights(), 3)


def test_what_agrees_by_name_and_shape_is_taken_and_the_rest_stays(tmp_path: Path) -> None:
    first, second = Net(), Net(num_classes=5)
    first.norm.running_mean.fill_(7.0)  # type: ignore[union-attr, operator]
    head = second.head.weight.detach().clone()
    _kept(tmp_path, first)
    said = take_over(second, tmp_path, TRIAL)
    assert torch.equal(second.trunk.weight, first.trunk.weight)
    assert torch.equal(second.norm.running_mean, first.norm.running_mean)  # type: ignore[arg-type]
    assert torch.equal(second.head.weight, head)
    assert said == (
        f"it starts from trial {TRIAL[:8]}: 9 tensors fit, 2 stay as drawn (head.weight, head.bias)"
    )
    assert take_over(Net(), tmp_path, TRIAL).endswith("all 11 tensors fit")


def test_positions_of_another_grid_are_interpolated_and_the_class_tokens_stays(
    tmp_path: Path,
) -> None:
    first, second = Seeing((2, 3), 7), Seeing((4, 6), 25)
    _kept(tmp_path, first)
    said = take_over(second, tmp_path, TRIAL)
    moved = second.position.resampled("table", first.position.table)
    assert moved is not None
    assert torch.equal(second.position.table, moved)
    assert torch.equal(second.position.table[0], first.position.table[0])
    down, across = second.twofold.tables()
    assert torch.equal(down[[0, -1]], first.twofold.row_table[[0, -1]])
    assert torch.equal(across[[0, -1]], first.twofold.column_table[[0, -1]])
    assert said == (
        f"it starts from trial {TRIAL[:8]}: 2 tensors fit, 3 were interpolated "
        "(position.table, twofold.row_table, twofold.column_table)"
    )
    with pytest.raises(CheckpointError, match=r"no weight that fits position\.table"):
        restore(Seeing((4, 6), 25), tmp_path, TRIAL)


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (Seeing(None, 7), Seeing(None, 25), "2 stay as drawn (position.table, twofold.column_"),
        (Seeing((2, 3), 7), Seeing((4, 6), 25, dim=6), "3 stay as drawn (position.table, "),
        (Seeing((2, 4), 9), Seeing((4, 6), 25), "2 were interpolated (twofold.row_table, "),
        (Seeing((2, 3), 7).double(), Seeing((4, 6), 25), "3 stay as drawn (position.table, "),
    ],
    ids=["no grid", "another width", "another ratio", "another type"],
)
def test_a_table_that_does_not_fit_stays_as_drawn(
    first: Seeing, second: Seeing, left: str, tmp_path: Path
) -> None:
    drawn = second.position.table.detach().clone()
    first.trunk.float()
    _kept(tmp_path, first)
    assert left in take_over(second, tmp_path, TRIAL)
    assert torch.equal(second.position.table, drawn)


def test_what_shares_nothing_is_refused(tmp_path: Path) -> None:
    _kept(tmp_path, Net())
    with pytest.raises(CheckpointError, match="no weight of trial"):
        take_over(nn.Linear(9, 9), tmp_path, TRIAL)


def test_what_the_model_does_not_train_must_all_be_taken(tmp_path: Path) -> None:
    """Otherwise a frozen part would keep its random values for ever."""
    _kept(tmp_path, Net())
    fixed, other = Net(), Net(num_classes=5)
    for model in (fixed, other):
        model.head.requires_grad_(False)
    assert take_over(fixed, tmp_path, TRIAL).endswith("all 11 tensors fit")
    with pytest.raises(CheckpointError, match=r"fits head\.weight, head\.bias, which the"):
        take_over(other, tmp_path, TRIAL)


def _of_pictures(architecture: str, task: str, **sizes: Any) -> nn.Module:
    kind = task_class(task)
    first, *others = (interface := kind.interface(kind.fixed_length or 1)).inputs.items()
    return build_model(
        ModelSpec(
            architecture=architecture,
            length=first[1].length,
            input_kind=first[1].kind,
            input_size=first[1].size,
            grid=first[1].grid,
            output_size=interface.output_size,
            others=dict(others),
            settings={"codes": 32, "tokenizer_width": 8},
            **sizes,
        )
    )


def test_a_model_that_draws_has_every_weight_of_the_code_that_was_trained(tmp_path: Path) -> None:
    torch.manual_seed(0)
    code = _of_pictures("discrete_vae", "emoji_pictures")
    model = _of_pictures(
        "image_tokens",
        "emoji_tokens",
        mixer="attention",
        dim=8,
        depth=1,
        position="learned",
        knobs={"heads": 2},
    )
    _kept(tmp_path, code)
    take_over(model, tmp_path, TRIAL)
    kept = code.state_dict()
    taken = {n: t for n, t in model.state_dict().items() if n.startswith("tokenizer.")}
    assert taken
    assert all(torch.equal(tensor, kept[name]) for name, tensor in taken.items())


def test_what_is_taken_over_may_be_kept_as_it_is(tmp_path: Path) -> None:
    first, second = Net(), Net(num_classes=5)
    _kept(tmp_path, first)
    take_over(second, tmp_path, TRIAL, is_frozen=True)
    trained = {name for name, each in second.named_parameters() if each.requires_grad}
    assert trained == {"head.weight", "head.bias"}
    take_over(other := Net(num_classes=5), tmp_path, TRIAL)
    assert all(parameter.requires_grad for parameter in other.parameters())
    with pytest.raises(CheckpointError, match=f"nothing is left to train: trial {TRIAL[:8]} has"):
        take_over(Net(), tmp_path, TRIAL, is_frozen=True)


class Headed(Reader):
    """A `Reader` with a second map."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.head = nn.Linear(self.map.out_features, self.map.out_features)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.head(super().forward(inputs, mask))
        return logits


def test_a_frozen_weight_is_not_moved_by_a_training(tmp_path: Path) -> None:
    """Weight decay does not change it either."""
    first, child = Reader(), Headed(seed=1)
    _kept(tmp_path, first)
    take_over(child, tmp_path, TRIAL, is_frozen=True)
    drawn = child.head.weight.detach().clone()
    todo = Exercise(task=FirstToken(), training=training(4), batch=8, seed=0)
    list(train_resuming(LocalEngine(child, training(4), "cpu"), todo, None))
    assert torch.equal(child.map.weight, first.map.weight)
    assert not torch.equal(child.head.weight, drawn)


def test_damage_is_found_and_a_host_without_the_folder_says_what_it_needs(tmp_path: Path) -> None:
    _kept(tmp_path, Net())
    assert not why_no_weights(tmp_path, TRIAL)
    file = tmp_path / TRIAL / FINAL / "model.safetensors"
    body = bytearray(file.read_bytes())
    body[-1] ^= 1
    file.write_bytes(body)
    with pytest.raises(CheckpointError, match="SHA-256"):
        take_over(Net(), tmp_path, TRIAL)
    _kept(tmp_path, Net())  # replaces the damaged weights
    assert not why_no_weights(tmp_path, TRIAL)
    with pytest.raises(CheckpointError, match="give an --out that all nodes share"):
        take_over(Net(), None, TRIAL)
    assert [path.name for path in (tmp_path / TRIAL).iterdir()] == [FINAL]


def test_a_training_keeps_its_average_where_it_is_asked_to(tmp_path: Path) -> None:
    for keeps in (False, True):
        model = Reader()
        engine = LocalEngine(model, training(4, ema=0.5, num_evaluations=1), "cpu")
        todo = Exercise(
            task=FirstToken(), training=training(4, ema=0.5, num_evaluations=1), batch=8, seed=0
        )
        checkpointer = Checkpointer(tmp_path / TRIAL, 1e9, keeps_weights=keeps)
        list(train_resuming(engine, todo, checkpointer))
        assert bool(why_no_weights(tmp_path, TRIAL)) is not keeps
    child = Reader(seed=1)
    take_over(child, tmp_path, TRIAL)
    assert torch.equal(child.map.weight, model.map.weight), "what was scored is what is kept"
