"""Which mixers recall, and does it help to make them wider?

Arora, Eyuboglu et al. 2023 (Zoology, arXiv:2312.04927), figure 2: attention answers all queries of
associative recall at any width from 64 to 512; convolutions, gated and as long as the sequence,
only where the width grows with the number of pairs, since what they remember has to fit into it.
Here: mixers by width, two layers and one head, as there; 256 symbols for its 8,192 (mqar_small) at
all scales. Quick has 4 pairs in 32 tokens, and 1,000 steps of 64 examples for its 12,500 of 512.
Expected: at width 64 attention finds the key, all at once, after 400 to 700 steps; at 32 not yet
after 1,500, nor at 64 with four heads or at a rate of 0.01; in 1,000 batches of 32 half of them.
The others guess among the four values, one in four right. So did convolutions of 31 or 32 taps,
which see all (one seed each: separable 0.26, with batches of 32 plain 0.26 and gated 0.26); those
here have 3 taps, and see 5 tokens in two layers.

Cost: quick about 7 minutes on two cores; standard half a day on one GPU; paper a cluster.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Which mixers recall, and does it help to make them wider?",
    baseline=Model(mixer="attention", heads=1, position="sinusoidal"),
    axes=[
        vary("mixer", [
            "attention", "separable_conv", "gated_conv", "lstm", "linear_transformer", "performer",
        ], quick=["attention", "separable_conv", "lstm", "linear_transformer"]),
        vary("dim", [16, 32, 64, 128, 256, 512], quick=[16, 32, 64]),
    ],
    combine="cross",
    tasks=["mqar_small"],
    probes=["quality", "floors", "parameters", "flops"],
    claim=Claim(
        "attention recalls better than a convolution of the same width",
        metric="accuracy",
        a="mixer=attention, dim=64",
        b="mixer=separable_conv, dim=64",
        by=0.1,
        source="Arora, Eyuboglu et al. 2023, arXiv:2312.04927, figure 2",
        published="attention recalls at every width; gated convolutions need width to grow",
    ),
    recipe=Recipe(schedule="cosine"),
    scales={
        "quick": Scale(
            dim=64, depth=2, length=32, steps=1_000, batch=64, learning_rate=5e-3,
            num_evaluations=8,
        ),
        "standard": Scale(
            dim=64, depth=2, length=128, steps=10_000, batch=256, learning_rate=1e-3,
            warmup_steps=1_000, gpus=1.0,
        ),
        "paper": Scale(
            dim=64, depth=2, length=256, steps=50_000, batch=256, learning_rate=1e-3,
            warmup_steps=4_000, gpus=1.0,
        ),
    },
)  # fmt: skip
