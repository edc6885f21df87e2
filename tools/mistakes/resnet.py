"""Bugs of residual networks and of attention on feature maps."""

from __future__ import annotations

from mistakes import Mutant

_CHANNELS = "vision/channel_attention.py"
_OF_CHANNELS = "vision/test_channel_attention.py"
_MAPS = "vision/map_attention.py"
_OF_MAPS = "vision/test_map_attention.py"
_RESIDUAL = "vision/residual_network.py"
_OF_RESIDUAL = "architectures/test_resnet.py"

MUTANTS_OF_RESNET: tuple[Mutant, ...] = (
    Mutant(
        "squeeze and excitation comes after the sum",
        _RESIDUAL,
        'branch = self._gated("standard", self._branch(self._gated("pre", x)))\n'
        '        return self._gated("post", (shortcut + branch).relu())',
        'branch = self._branch(self._gated("pre", x))\n'
        '        return self._gated("post", self._gated("standard", shortcut + branch).relu())',
        "written_out",
        battery=_OF_RESIDUAL,
    ),
    Mutant(
        "the gate after the sum comes before its ReLU",
        _RESIDUAL,
        'return self._gated("post", (shortcut + branch).relu())',
        'return self._gated("post", shortcut + branch).relu()',
        "written_out",
        battery=_OF_RESIDUAL,
    ),
    Mutant(
        "the stride of a bottleneck is in its first convolution",
        _RESIDUAL,
        "if number == int(is_bottleneck):  # the first 3 x 3\n"
        "                    self.convs.append(_spatial(reads, writes, place, config, attention))\n"
        "                else:\n"
        "                    self.convs.append(MapConvolution(reads, writes, 1 if is_bottleneck "
        "else 3))",
        "if not is_bottleneck and number == 0:\n"
        "                    self.convs.append(_spatial(reads, writes, place, config, attention))\n"
        "                else:\n"
        "                    side = 3 if number == 1 or not is_bottleneck else 1\n"
        "                    stride = place.stride if is_bottleneck and number == 0 else 1\n"
        "                    self.convs.append(MapConvolution(reads, writes, side, stride=stride))",
        "written_out",
        battery=_OF_RESIDUAL,
    ),
    Mutant(
        "a block's last norm has a ReLU before the sum",
        _RESIDUAL,
        "x = x if number == len(self.convs) else x.relu()",
        "x = x.relu()",
        "written_out",
        battery=_OF_RESIDUAL,
    ),
    Mutant(
        "the attention of a stage is in the next one",
        _RESIDUAL,
        "attends = place.stage in",
        "attends = place.stage - 1 in",
        "stages_that_are_named",
        battery=_OF_RESIDUAL,
    ),
    Mutant(
        "batch norm lets a batch be trained in parts",
        _RESIDUAL,
        "if num_parts > 1:",
        "if num_parts > 2:",
        "trained_on_whole",
        battery=_OF_RESIDUAL,
    ),
    Mutant(
        "the excitation has no ReLU",
        _CHANNELS,
        "self.expand(self.contract(x).relu())",
        "self.expand(self.contract(x))",
        "squeeze_and_excitation",
        battery=_OF_CHANNELS,
    ),
    Mutant(
        "CBAM's sigmoid comes before the sum",
        _CHANNELS,
        "first, *others = [self._excited(squeezed(x, each)) for each in self.squeezes]\n"
        "        return self.activation(sum(others, first))[:, :, None, None]",
        "first, *others = [\n"
        "            self.activation(self._excited(squeezed(x, each))) for each in self.squeezes\n"
        "        ]\n"
        "        return sum(others, first)[:, :, None, None]",
        "test_cbam",
        battery=_OF_CHANNELS,
    ),
    Mutant(
        "CBAM gates places first",
        _CHANNELS,
        'reversed(parts) if self.order == "spatial_first" else parts:',
        'reversed(parts) if self.order == "channel_first" else parts:',
        "test_cbam",
        battery=_OF_CHANNELS,
    ),
    Mutant(
        "both of CBAM's gates are of its input",
        _CHANNELS,
        'part.gate(read if self.order == "parallel" else x)',
        "part.gate(read)",
        "test_cbam",
        battery=_OF_CHANNELS,
    ),
    Mutant(
        "a distance is from the key to the query",
        _MAPS,
        "distance = torch.arange(places) - torch.arange(places)[:, None]",
        "distance = torch.arange(places)[:, None] - torch.arange(places)",
        "double_loop",
        battery=_OF_MAPS,
    ),
    Mutant(
        "a distance is off by one",
        _MAPS,
        "row = (distance + reach).clamp(0, 2 * reach)",
        "row = (distance + reach + 1).clamp(0, 2 * reach)",
        "double_loop",
        battery=_OF_MAPS,
    ),
    Mutant(
        "the distances of rows are counted backwards",
        _MAPS,
        "down: Tensor = self.row(queries.transpose(2, 3)).transpose(2, 3).unsqueeze(-1)",
        "down: Tensor = self.row(queries.transpose(2, 3)).transpose(2, 3).flip(-1).unsqueeze(-1)",
        "double_loop",
        battery=_OF_MAPS,
    ),
    Mutant(
        "relative logits are not scaled",
        _MAPS,
        "attn_mask=self._of_distance(queries),\n            scale=1.0,\n        )\n"
        "        return pooled(as_map(mixed, x), self.stride)",
        "attn_mask=self._of_distance(queries * queries.shape[-1] ** 0.5),\n            scale=1.0,\n"
        "        )\n        return pooled(as_map(mixed, x), self.stride)",
        "double_loop",
        battery=_OF_MAPS,
    ),
    Mutant(
        "halves of the local keys' embeddings are swapped",
        _MAPS,
        "of_row, of_column = queries.chunk(2, dim=-1)",
        "of_column, of_row = queries.chunk(2, dim=-1)",
        "double_loop",
        battery=_OF_MAPS,
    ),
    Mutant(
        "places outside the map take a share",
        _MAPS,
        "is_row, is_near = (down >= 0) & (down < grid[0]), across.abs() <= self.reach",
        "is_row, is_near = down == down, across.abs() <= self.reach",
        "double_loop",
        battery=_OF_MAPS,
    ),
    Mutant(
        "a non-local block has no residual",
        _MAPS,
        "return x + change",
        "return change",
        "non_local",
        battery=_OF_MAPS,
    ),
    Mutant(
        "a non-local block does not start as the identity",
        _MAPS,
        "        nn.init.zeros_(self.norm.weight)\n",
        "",
        "non_local",
        battery=_OF_MAPS,
    ),
    Mutant(
        "a stage may have no blocks",
        "model_spec.py",
        r'rf"[1-9]\d*({separator}[1-9]\d*)*"',
        r'rf"\d+({separator}\d+)*"',
        "no_whole_numbers",
        battery="test_knobs.py",
    ),
)
