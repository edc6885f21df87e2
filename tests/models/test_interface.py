"""Check that outputs are rebuilt as a whole."""

import torch

from bakeoff.models.interface import Outputs


def test_a_change_reaches_every_tensor() -> None:
    outputs = Outputs(torch.ones(2, dtype=torch.bfloat16), {"penalty": torch.zeros(())})
    changed = outputs.map(torch.Tensor.double)
    assert (changed.logits.dtype, changed.auxiliary["penalty"].dtype) == (torch.float64,) * 2
    assert outputs.logits.dtype == torch.bfloat16


def test_those_who_look_for_tensors_in_tuples_find_all() -> None:
    """Check that DeepSpeed and CUDA graphs, which traverse tuples, can rebuild all tensors."""
    outputs = Outputs(torch.ones(2), {"a": torch.zeros(1), "b": torch.zeros(3)})
    leaves, shape = torch.utils._pytree.tree_flatten(outputs)
    assert [len(leaf) for leaf in leaves] == [2, 1, 3]
    assert isinstance(torch.utils._pytree.tree_unflatten(leaves, shape), Outputs)
