"""Which mixers recall, and does it help to make them wider?

Arora, Eyuboglu et al. 2023 (Zoology, arXiv:2312.04927), figure 2: attention answers all queries of
associative recall at any width from 64 to 512; convolutions, gated and as long as the sequence,
only where the width grows with the number of pairs, since what they remember has to fit into it.
Here: mixers by width, two layers and one head, as there; 256 symbols for its 8,192 (mqar_small),
4 and 8 pairs in 64 tokens at quick. Convolution, Hyena and S4D have filters as long. Blocks have no
feed-forward, positions stand beside the tokens. The floor guesses among the values shown. At width
64 all states but Hyena's have 32 to 37 KB, attention's 66.

Expected: attention answers all, once wide enough; Mamba-2 and the delta rule nearly all.

Found at quick, four seeds, width 64 and 32: attention 1.00 and 0.58, gated delta 0.96 and 0.99,
Mamba-2 0.70 (0.31 to 0.997 by seed) and 0.95; convolution, linear Transformer and S4D guess. Hyena
(0.01) has not begun to learn.

Cost: quick about 40 minutes on two cores; standard 23 on one H100, as planned; paper a cluster.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Which mixers recall, and does it help to make them wider?",
    baseline=Model(
        mixer="attention",
        heads=1,
        kernel_size=64,
        value_ratio=1.0,
        state=64,
        position_mode="concatenated",
        feed_forward="none",
    ),
    axes=[
        vary(
            "mixer",
            [
                "attention",
                "separable_conv",
                "hyena",
                "lstm",
                "linear_transformer",
                "s4d",
                "gla",
                "mamba2",
                "delta_net",
                "gated_delta",
                "rwkv7",
            ],
            quick=[
                "attention",
                "separable_conv",
                "hyena",
                "linear_transformer",
                "s4d",
                "mamba2",
                "gated_delta",
            ],
        ),
        vary("dim", [16, 32, 64, 128], quick=[32, 64]),
    ],
    combine="cross",
    tasks=["mqar_small"],
    probes=["quality", "floors", "parameters", "flops", "state_bytes"],
    claim=Claim(
        "attention recalls better than an equally wide convolution over the sequence",
        metric="accuracy",
        a="mixer=attention, dim=64",
        b="mixer=separable_conv, dim=64",
        by=0.1,
        source="Arora, Eyuboglu et al. 2023, arXiv:2312.04927, figure 2",
        published="attention recalls at every width; long convolutions need width to grow",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=64,
            depth=2,
            length=64,
            steps=800,
            search_steps=500,
            batch=32,
            num_evaluations=4,
            seeds=4,
        ),
        "standard": Scale(
            dim=64,
            depth=2,
            length=128,
            steps=2_000,
            batch=128,
            warmup_steps=200,
            seeds=3,
            precision="bf16",
            gpus=1.0,
        ),
        "paper": Scale(
            dim=64, depth=2, length=256, steps=50_000, batch=256, warmup_steps=4_000, gpus=1.0
        ),
    },
)
