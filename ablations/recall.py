"""Which mixers recall, and does it help to make them wider?

Arora, Eyuboglu et al. 2023 (Zoology, arXiv:2312.04927), figure 2: attention answers all queries of
associative recall at any width from 64 to 512; convolutions, gated and as long as the sequence,
only where the width grows with the number of pairs, since what they remember has to fit into it.
Here: mixers by width, two layers and one head, as there; 256 symbols for its 8,192 (mqar_small).
Quick has 4 and 8 pairs in 64 tokens. The convolution has a tap for each of these. Blocks have no
feed-forward, and positions stand beside the tokens, so that attention finds the key within 300
steps. Each mixer has its own learning rate at each width. The floor guesses among the values that
were shown: one in four of 4 pairs, one in eight of 8.

Expected: attention answers all, once it is wide enough to tell 256 symbols apart; the others guess
among the values shown.

Found at quick, five seeds: attention 0.9996 at width 64 and 0.67 at 32, where some seeds miss the
key; the convolution 0.169 and the linear Transformer 0.173 at 64, for a floor of 0.167. The LSTM
(0.008) has not begun to learn after 800 steps, so nothing follows about it.

Cost: quick about 15 minutes on two cores; standard 25 on one H100, as planned; paper a cluster.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Which mixers recall, and does it help to make them wider?",
    baseline=Model(
        mixer="attention", heads=1, kernel_size=64, position_mode="concatenated",
        feed_forward="none",
    ),
    axes=[
        vary("mixer", ["attention", "separable_conv", "lstm", "linear_transformer"]),
        vary("dim", [16, 32, 64, 128, 256, 512], quick=[16, 32, 64]),
    ],
    combine="cross",
    tasks=["mqar_small"],
    probes=["quality", "floors", "parameters", "flops"],
    claim=Claim(
        "attention recalls better than a convolution as long as the sequence, of the same width",
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
            dim=64, depth=2, length=64, steps=800, search_steps=500, batch=32, num_evaluations=8,
            seeds=5,
        ),
        "standard": Scale(
            dim=64, depth=2, length=128, steps=4_000, batch=256, warmup_steps=400,
            precision="bf16", gpus=0.125
        ),
        "paper": Scale(
            dim=64, depth=2, length=256, steps=50_000, batch=256, warmup_steps=4_000, gpus=1.0
        ),
    },
)  # fmt: skip
