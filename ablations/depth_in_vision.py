"""Do deep vision transformers train without LayerScale?

Touvron et al. 2021 (CaiT, arXiv:2103.17239, section 2 and Table 1): of vision transformers on
ImageNet the accuracy falls from 18 blocks on to 36, whatever share of blocks is left out at random;
with LayerScale, a gain for each channel of each branch that starts near 0, it rises all the way.
Here: clothes of 28 x 28 pixels in 16 patches, 4 or 16 blocks, each with and without LayerScale, of
which the paper's start up to 18 blocks is 0.1. A deep model may need no LayerScale if its learning
rate is lower; so each has its own.

Expected: deeper is better with LayerScale, and less so without.

Found at quick, five seeds: supported, exploratory. With 16 blocks LayerScale gains 0.8 points
(0.2 to 1.4); from 4 to 16 blocks nothing is gained without it (0.0, -0.5 to 0.6), and with 4 it
does not help (-0.6, -1.5 to 0.3). Without it the search chose half of its rate.

Cost: quick about 30 minutes on two cores; standard 25 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Do deep vision transformers train without LayerScale?",
    baseline=Model(
        "vit",
        mixer="attention",
        heads=4,
        position="learned",
        pooling="mean",
        patch=7,
        layer_scale=None,
    ),
    axes=[
        vary("layer_scale", [None, 0.1, 1e-5], quick=[None, 0.1]),
        vary("depth", [4, 16, 36], quick=[4, 16]),
    ],
    combine="cross",
    tasks=["fashion_mnist_images"],
    probes=["quality", "floors", "parameters", "flops"],
    words={
        "layer_scale=None": "without LayerScale",
        "layer_scale=0.1": "with LayerScale",
        "layer_scale=1e-05": "with LayerScale from 1e-5",
    },
    claim=Claim(
        "a vision transformer of 16 blocks is more accurate with LayerScale than without",
        metric="accuracy",
        a="layer_scale=0.1, depth=16",
        b="layer_scale=None, depth=16",
        by=0.005,
        source="Touvron et al. 2021, arXiv:2103.17239, Table 1",
        published="accuracy rises to 36 blocks with LayerScale, and falls beyond 18 without",
    ),
    recipe=Recipe(learning_rate="tuned", weight_decay=0.05, flip=True),
    scales={
        "quick": Scale(
            dim=48,
            depth=4,
            length=784,
            steps=2_500,
            search_steps=1_250,
            batch=32,
            num_evaluations=5,
            seeds=5,
        ),
        "standard": Scale(
            dim=192,
            depth=12,
            length=784,
            steps=2_900,
            batch=64,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
