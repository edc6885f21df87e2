"""How many latents does a Perceiver need, and how often must they look?

Jaegle et al. 2021 (Perceiver, arXiv:2103.03206): a few latents read many inputs, so that cost grows
with the inputs and not with their square; with more cross-attends and more latents ImageNet gets
better, and weights shared between cross-attends overfit less (appendix A). Here: clothes of
Fashion-MNIST, one block of latents after each look; at standard as 784 pixels with their Fourier
places, at quick as 49 patches of 16 pixels, since pixels take more steps than a laptop has: after
1,200 steps of 32 sixteen latents had 0.82, where a linear classifier has 0.85.

Expected: more latents help up to a few dozen; a second look helps; without places a bag of patches
is left, which loses much.

Cost: quick about 25 minutes on two cores; standard 25 on one H100, as planned.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="How many latents does a Perceiver need, and how often must they look?",
    baseline=Model("perceiver", mixer="attention", heads=4, latents=16, cross_attends=2,
                   bands=12),
    axes=[
        vary("latents", [2, 4, 16, 64], quick=[2, 16]),
        vary("cross_attends", [1, 2, 4], quick=[1, 2]),
        vary("share", ["paper", "all"], quick=[]),
        vary("bands", [0, 12]),
    ],
    tasks=["fashion_mnist_pixels"],
    probes=["quality", "floors", "parameters", "flops"],
    claim=Claim(
        "16 latents classify better than 2",
        metric="accuracy",
        a="baseline",
        b="latents=2",
        by=0.02,
        source="Jaegle et al. 2021, arXiv:2103.03206, appendix A",
        published="accuracy on ImageNet grows with the number of latents",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            tasks=["fashion_mnist_patches"],
            dim=64, depth=1, length=49, steps=4_000, search_steps=800, batch=32, num_evaluations=4,
            seeds=3,
        ),
        "standard": Scale(
            dim=128, depth=4, length=784, steps=4_000, batch=64, warmup_steps=400,
            precision="bf16", gpus=0.125,
        ),
    },
)  # fmt: skip
