"""Plausible bugs of vision models and of their recipes, which the tests must notice."""

from __future__ import annotations

from mistakes import Mutant


def _of_training(
    mistake: str, file: str, old: str, new: str, battery: str, *, tests: str = "test"
) -> Mutant:
    """A bug of `suite/training/`."""
    return Mutant(mistake, f"training/{file}", old, new, tests, f"training/{battery}", room="suite")


_CHANNELS = "vision/channel_attention.py"
_OF_CHANNELS = "vision/test_channel_attention.py"
_MAPS = "vision/map_attention.py"
_OF_MAPS = "vision/test_map_attention.py"
_RESIDUAL = "architectures/resnet.py"
_OF_RESIDUAL = "architectures/test_resnet.py"

_RESNET: tuple[Mutant, ...] = (
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
        "attn_mask=self._of_distance(queries), scale=1.0,\n        )  # fmt: skip\n"
        "        return pooled(as_map(mixed, x), self.stride)",
        "attn_mask=self._of_distance(queries * queries.shape[-1] ** 0.5), scale=1.0,\n"
        "        )  # fmt: skip\n        return pooled(as_map(mixed, x), self.stride)",
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
)

_WINDOWS = "vision/windows.py"
_WINDOW_ATTENTION = "mixers/attentions/window_attention.py"
_OF_WINDOWS = "mixers/attentions/test_window_attention.py"
_SWIN_FILE = "architectures/swin.py"
_OF_SWIN = "architectures/test_swin.py"

_SWIN: tuple[Mutant, ...] = (
    Mutant(
        "what the roll brings together sees one another",
        _WINDOWS,
        "regions = 1 + 2 * (rows[:, None] < self.shifts[0]) + (columns < self.shifts[1])",
        "regions = 1 + 0 * (rows[:, None] < self.shifts[0]) + 0 * columns",
        "loop and 8-8-4",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "a grid is padded after the roll",
        _WINDOWS,
        """        image = functional.pad(image, (0, 0, 0, missing[1], 0, missing[0]))
        if any(self.shifts):
            image = image.roll((-self.shifts[0], -self.shifts[1]), dims=(1, 2))
""",
        """        if any(self.shifts):
            image = image.roll((-self.shifts[0], -self.shifts[1]), dims=(1, 2))
        image = functional.pad(image, (0, 0, 0, missing[1], 0, missing[0]))
""",
        "loop and 9-7-4",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "what fills up the windows is seen",
        _WINDOWS,
        "seen = (regions == keys) & (keys > 0)",
        "seen = (regions == keys) | (keys == 0)",
        "loop and 9-7-4",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "the roll is not undone",
        _WINDOWS,
        "image = image.roll(self.shifts, dims=(1, 2))",
        "image = image.roll((0, 0), dims=(1, 2))",
        "loop and 8-8-4",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "the step is from the query to the key",
        _WINDOWS,
        "return steps[down, across].permute(2, 0, 1).unsqueeze(0)",
        "return steps[down, across].permute(2, 1, 0).unsqueeze(0)",
        "stands_where",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "rows and columns of the table change places",
        _WINDOWS,
        "return steps[down, across].permute(2, 0, 1).unsqueeze(0)",
        "return steps.transpose(0, 1)[across, down].transpose(0, 1).permute(2, 0, 1).unsqueeze(0)",
        "stands_where",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "a window is not shrunk to a small map",
        _WINDOW_ATTENTION,
        "rows, columns = ((min(n, side), shift if n > side else 0) for n in grid)",
        "rows, columns = ((side, shift) for n in grid)",
        "one_window_without_shift",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "a map of one window is shifted",
        _WINDOW_ATTENTION,
        "shift if n > side else 0",
        "shift if n >= side else 0",
        "one_window_without_shift",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "all layers but the first are shifted",
        _WINDOW_ATTENTION,
        'self.config.shift == "alternate" and layer % 2 == 1',
        'self.config.shift == "alternate" and layer > 0',
        "every_other_layer",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "the factor of cosines has no limit",
        _WINDOW_ATTENTION,
        "self.log_factor.clamp(max=_MOST).exp()",
        "self.log_factor.exp()",
        "hundred",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "steps are not on a logarithmic scale",
        _WINDOWS,
        "places.sign() * (1 + places.abs()).log2() / 3",
        "places / 8",
        "network_says",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "an initialisation draws the relative bias again",
        _WINDOWS,
        'keeps_own_draw = no_weight_decay = ("expand", "contract")',
        'no_weight_decay = ("expand", "contract")',
        "draws_the_bias",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "neighbours are merged row by row",
        _SWIN_FILE,
        "for across in (0, 1) for down in (0, 1)",
        "for down in (0, 1) for across in (0, 1)",
        "merging",
        battery=_OF_SWIN,
    ),
    Mutant(
        "an odd map loses its last row",
        _SWIN_FILE,
        "image = functional.pad(image, (0, 0, 0, columns % 2, 0, rows % 2))",
        "image = image[:, : rows // 2 * 2, : columns // 2 * 2]",
        "merging",
        battery=_OF_SWIN,
    ),
    Mutant(
        "gains of the second version start at one",
        _SWIN_FILE,
        "nn.init.zeros_(cast",
        "nn.init.ones_(cast",
        "starts_as_the_identity",
        battery=_OF_SWIN,
    ),
    Mutant(
        "each stage counts its own blocks for stochastic depth",
        _SWIN_FILE,
        "share=next(shares)",
        "share=(layer + 1) / self.spec.depth",
        "left_out",
        battery=_OF_SWIN,
    ),
    Mutant(
        "the table is as large as the window where the map is smaller",
        _SWIN_FILE,
        "window = min(config.window, max(spec.grid or ()))",
        "window = config.window",
        "small_tasks",
        battery=_OF_SWIN,
    ),
)

_CLASS_ATTENTION = "vision/class_attention.py"
_OF_CLASS_ATTENTION = "vision/test_class_attention.py"
_OF_CAIT = "architectures/test_cait.py"
_VOLO = "architectures/volo.py"
_OF_VOLO = "architectures/test_volo.py"
_TALKING_HEADS = "mixers/attentions/talking_heads.py"
_OUTLOOK = "mixers/attentions/outlook_attention.py"
_OF_OUTLOOK = "mixers/attentions/test_outlook_attention.py"
_CAIT_AND_VOLO: tuple[Mutant, ...] = (
    Mutant(
        "LayerScale is one number for all channels",
        "sublayers.py",
        "nn.Parameter(torch.full((dim,), start))",
        "nn.Parameter(torch.full((1,), start))",
        "layer_scale",
        battery=_OF_CAIT,
    ),
    Mutant(
        "the class token of CaiT gets a position",
        _CLASS_ATTENTION,
        "first, patches = x[:, :1], self.mixed(x[:, 1:])",
        "first, patches = self.position(x[:, :1]), self.mixed(x[:, 1:])",
        "papers_order or no_position",
        battery=_OF_CAIT,
    ),
    Mutant(
        "blocks of the class token change the patches",
        _CLASS_ATTENTION,
        "            first = block(first, patches)\n",
        "            first = block(first, patches)\n            patches = patches + first\n",
        "papers_order or keep_theirs",
        battery=_OF_CAIT,
    ),
    Mutant(
        "keys and values of class attention are those of patches alone",
        _CLASS_ATTENTION,
        "(self.key, x), (self.value, x)",
        "(self.key, x[:, 1:]), (self.value, x[:, 1:])",
        "papers_loop",
        battery=_OF_CLASS_ATTENTION,
    ),
    Mutant(
        "patches are not normed before the class token reads them",
        _CLASS_ATTENTION,
        'return cast("Tensor", add(x, call(normed(norm, read))))',
        'return cast("Tensor", add(x, call(torch.cat([normed(norm, x), read[:, 1:]], 1))))',
        "formula",
        battery=_OF_CLASS_ATTENTION,
    ),
    Mutant(
        "blocks of the class token are left out by chance",
        _CLASS_ATTENTION,
        "replace(config, stochastic_depth=0.0)",
        "config",
        "formula",
        battery=_OF_CLASS_ATTENTION,
    ),
    Mutant(
        "stochastic depth of CaiT grows with depth",
        "architectures/cait.py",
        'stochastic_depth_rule: Literal["linear", "constant"] = "constant"',
        'stochastic_depth_rule: Literal["linear", "constant"] = "linear"',
        "constant",
        battery=_OF_CAIT,
    ),
    Mutant(
        "the second map over heads comes before the softmax",
        _TALKING_HEADS,
        ", visible\n        )\n        weights = _over_heads(self.after, weights)\n",
        ", visible\n        ) if self.after is None else softmax_weights(_over_heads(self.after, "
        "_over_heads(self.before, self.scale * queries @ keys.transpose(-1, -2))), visible)\n",
        "talking_heads",
    ),
    Mutant(
        "the bias after the softmax reaches hidden keys",
        _TALKING_HEADS,
        "if not visible.is_everything() and",
        "if False and",
        "talking_heads",
    ),
    Mutant(
        "heads talk by the transposed map",
        _TALKING_HEADS,
        "torch.bmm(linear.weight.expand(",
        "torch.bmm(linear.weight.T.expand(",
        "talking_heads",
    ),
    Mutant(
        "weights of a window come from its neighbours, not its centre",
        _OUTLOOK,
        "        if side == 1:\n            return x, mask\n",
        "        if side == 1:\n            return x.roll(1, dims=1), mask\n",
        "loop or centre",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "what windows give a place is averaged",
        _OUTLOOK,
        "        mixed: Tensor = self.output(summed.flatten(2).transpose(1, 2))\n",
        "        summed = summed / self.places\n"
        "        mixed: Tensor = self.output(summed.flatten(2).transpose(1, 2))\n",
        "loop or summed",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "the softmax of a window is over the places that take",
        _OUTLOOK,
        ".mul_(self.scale).softmax(dim=-1)",
        ".mul_(self.scale).softmax(dim=-2)",
        "loop or scale",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "around padding alone there are windows too",
        _OUTLOOK,
        "return weights if real is None else weights * real[:, :, None, None, None]",
        "return weights",
        "padding",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "padding has its share of a mean of centres",
        _OUTLOOK,
        "return pooled / share.masked_fill(share == 0, 1.0), real",
        "return pooled, real",
        "padding",
        battery=_OF_OUTLOOK,
    ),
    Mutant(
        "a head of tokens adds its mean",
        _VOLO,
        "of_tokens.amax(dim=1)",
        "of_tokens.mean(dim=1)",
        "head_of_tokens",
        battery=_OF_VOLO,
    ),
    Mutant(
        "outlookers are left out by chance",
        _VOLO,
        "replace(config, stochastic_depth=0.0)",
        "replace(config)",
        "by_chance",
        battery=_OF_VOLO,
    ),
)

_DEIT = "architectures/deit.py"
_OF_DEIT = "architectures/test_deit.py"
_LEVIT = "architectures/levit.py"
_OF_LEVIT = "architectures/test_levit.py"
_BIASED = "vision/biased_attention.py"

_DEIT_AND_LEVIT: tuple[Mutant, ...] = (
    Mutant(
        "the class and the distillation head are swapped",
        _DEIT,
        "heads = self.head(own), self.distillation_head(taught)",
        "heads = self.distillation_head(own), self.head(taught)",
        "reads_its_token",
        battery=_OF_DEIT,
    ),
    Mutant(
        "the class head learns from the teacher",
        _DEIT,
        "Outputs(own, {DISTILLATION: taught})",
        "Outputs(taught, {DISTILLATION: own})",
        "reads_its_token",
        battery=_OF_DEIT,
    ),
    Mutant(
        "in evaluation the class head answers alone",
        _DEIT,
        "else (own + taught) / 2",
        "else own",
        "mean_of_both",
        battery=_OF_DEIT,
    ),
    Mutant(
        "the distillation token comes before the class token",
        _DEIT,
        '(*before, "distillation_token")',
        '("distillation_token", *before)',
        "reads_its_token",
        battery=_OF_DEIT,
    ),
    Mutant(
        "learned tokens get no position",
        "stack.py",
        "x = self.dropout(self.position(x))\n        if self.is_reversible:",
        "places = self.position(0 * x)\n"
        "        places[:, :2] = 0\n"
        "        x = self.dropout(x + places)\n"
        "        if self.is_reversible:",
        "reads_its_token",
        battery=_OF_DEIT,
    ),
    Mutant(
        "the bias takes columns for rows",
        _BIASED,
        "places = down[:, None, :, None] * columns + across[None, :, None, :]",
        "places = down[:, None, :, None] + across[None, :, None, :] * rows",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "the bias has the sign of a distance",
        _BIASED,
        "torch.arange(columns)).abs()",
        "torch.arange(columns)) % columns",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "shrinking takes the queries of odd rows and columns",
        _BIASED,
        "return on_grid[:, :: self.stride, :: self.stride].flatten(1, 2)",
        "on_grid = on_grid.roll((-1, -1), (1, 2))\n"
        "        return on_grid[:, :: self.stride, :: self.stride].flatten(1, 2)",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "values of a shrinking attention are as wide as those of others",
        _BIASED,
        "(4 if shrinks else 2) * key_dim",
        "2 * key_dim",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "the last gain of an attention starts at 1",
        _BIASED,
        "(dim, 0.0) if shrinks_to is None",
        "(dim, 1.0) if shrinks_to is None",
        "identity",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "the last gain of a feed-forward starts at 1",
        _BIASED,
        "NormedLinear(hidden, dim, gain=0.0)",
        "NormedLinear(hidden, dim)",
        "identity",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "values do not pass Hardswish before the output map",
        _BIASED,
        "functional.hardswish(mixed) if self.has_activation else mixed",
        "mixed",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "scores are scaled by the width of values",
        _BIASED,
        "scale = self.widths[0] ** -0.5",
        "scale = self.widths[1] ** -0.5",
        "slow_loop",
        battery=_OF_LEVIT,
    ),
    Mutant(
        "a Hardswish stands behind the last convolution",
        _LEVIT,
        "return x.flatten(2).transpose(1, 2)",
        "return functional.hardswish(x).flatten(2).transpose(1, 2)",
        "papers_model",
        battery=_OF_LEVIT,
    ),
)

_RECIPES = (
    _of_training(
        "mixup leaves out the partner's targets",
        "mixing.py",
        "share * targets + (1 - share) * targets.flip(0)",
        "share * targets + (1 - share) * targets",
        "test_mixing.py",
    ),
    _of_training(
        "the share of CutMix is not that of the area that stayed",
        "mixing.py",
        "images, share = with_rectangle(",
        "images, _ = with_rectangle(",
        "test_mixing.py",
    ),
    _of_training(
        "mixed targets are smoothed, and smoothed again in the loss",
        "mixing.py",
        "functional.one_hot(classes, num_classes).to(images.dtype)",
        "functional.one_hot(classes, num_classes).to(images.dtype) * 0.9 + 0.1 / num_classes",
        "test_mixing.py",
    ),
    _of_training(
        "CutMix takes every batch, whatever mixup asks for",
        "mixing.py",
        "(not how.mixup or coin < 0.5)",
        "(not how.mixup or coin < 1.0)",
        "test_mixing.py",
    ),
    _of_training(
        "images are erased before they are normalised",
        "augmentation.py",
        'images = erased(images, training.erasing, stream_of("erasing", seed, step))',
        "images = images * deviation + mean\n"
        '        images = erased(images, training.erasing, stream_of("erasing", seed, step))\n'
        "        images = (images - mean) / deviation",
        "test_augmentation.py",
    ),
    _of_training(
        "what is erased is zero",
        "augmentation.py",
        "noise = torch.from_numpy(stream.normal(*found[chosen].shape)).to(images.dtype)",
        "noise = torch.zeros_like(found[chosen])",
        "test_augmentation.py",
    ),
    _of_training(
        "what is erased is one number for all channels",
        "augmentation.py",
        "stream.normal(*found[chosen].shape)",
        "stream.normal(*found[chosen].shape[:-1], 1)",
        "test_augmentation.py",
    ),
    _of_training(
        "augmentations are drawn by the seed alone",
        "augmentation.py",
        "place * _STEPS + step",
        "place * _STEPS",
        "test_augmentation.py",
    ),
    _of_training(
        "all augmentations draw the same numbers",
        "augmentation.py",
        "place * _STEPS + step",
        "step",
        "test_augmentation.py",
    ),
    _of_training(
        "repeated augmentation takes other images in place of the same ones",
        "augmentation.py",
        "found = found.map(lambda tensor: torch.cat([tensor] * times))",
        "found = task.training_batch(step, batch, seed)",
        "test_augmentation.py",
    ),
    _of_training(
        "the copies of an image are augmented alike",
        "augmentation.py",
        "images = single_images(found.inputs[INPUTS], task, training, seed=seed, step=step)",
        "few = found.inputs[INPUTS][: batch // times]\n"
        "    few = single_images(few, task, training, seed=seed, step=step)\n"
        "    images = few.repeat(times, 1, 1, 1)",
        "test_augmentation.py",
    ),
    _of_training(
        "crops are padded with the mean colour in place of black",
        "augmentation.py",
        "-mean / deviation, stream",
        "0 * mean, stream",
        "test_augmentation.py",
    ),
    _of_training(
        "a greater magnitude does not mean a stronger contrast",
        "randaugment.py",
        "(1 + 0.9 * sign * level).clamp(min=0.1)",
        "(0.1 + 1.8 * level)",
        "test_randaugment.py",
    ),
    _of_training(
        "images rotate around their corner",
        "randaugment.py",
        "rows, columns = y.shape[-2] / 2, x.shape[-1] / 2",
        "rows, columns = 0.0, 0.0",
        "test_randaugment.py",
    ),
    _of_training(
        "adversarial steps move normalised numbers by what is meant of pixels",
        "adversarial.py",
        "pixel = 1 / torch.tensor(task.pixel_standard_deviation).to(images)",
        "pixel = torch.ones(images.shape[-1]).to(images)",
        "test_adversarial.py",
    ),
    _of_training(
        "adversarial steps go to where the loss is smaller",
        "adversarial.py",
        "(moved.detach() + further)",
        "(moved.detach() - further)",
        "test_adversarial.py",
    ),
    _of_training(
        "adversarial steps are taken to the end of the training",
        "adversarial.py",
        "if is_early else 1",
        "",
        "test_adversarial.py",
    ),
    _of_training(
        "only the last of the adversarial steps counts",
        "engines/local.py",
        "if not losses:  # so late",
        "if True:  # so late",
        "test_adversarial.py",
    ),
    _of_training(
        "the average of the weights is scored with the last running statistics",
        "recipes.py",
        '_STATISTICS = ("running_mean", "running_var")',
        "_STATISTICS = ()",
        "test_recipes.py",
        tests="batch_norm",
    ),
    _of_training(
        "the teacher answers in training mode",
        "engines/local.py",
        "self._teacher = teacher.to(device).eval() if teacher else None",
        "self._teacher = teacher.to(device).train() if teacher else None",
        "test_distillation.py",
        tests="teacher_answers",
    ),
    Mutant(
        "what stochastic depth keeps is not scaled up",
        "sublayers.py",
        "change = change * keeps / (1 - self.rate)",
        "change = change * keeps",
        "stochastic_depth",
        "test_sublayers.py",
    ),
)

MUTANTS_OF_VISION = (*_RESNET, *_SWIN, *_CAIT_AND_VOLO, *_DEIT_AND_LEVIT, *_RECIPES)
