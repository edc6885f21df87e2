"""Bugs of training and of its recipes."""

from __future__ import annotations

from mistakes import Mutant


def _of_training(
    mistake: str, file: str, old: str, new: str, battery: str, *, tests: str = "test"
) -> Mutant:
    """A bug of `suite/training/`."""
    return Mutant(mistake, f"training/{file}", old, new, tests, f"training/{battery}", room="suite")


MUTANTS_OF_RECIPES: tuple[Mutant, ...] = (
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
