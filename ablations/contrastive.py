"""What do larger batches, the temperature and the image tower do for contrastive learning?

Radford et al. 2021 (CLIP, arXiv:2103.00020, section 2.3) train two towers on batches of 32,768
pairs, in which each text is a candidate for each image; the temperature is learned from 0.07 on,
and ViTs learn faster than residual networks for the same arithmetic. Yuksekgonul et al. 2023
(arXiv:2210.01936) find that such models read captions as bags of words. Here: scenes of two to four
emoji, 48 x 48 pixels, and the right one of 16 captions; of every second picture five wrong ones
name the same objects in another order. All batches are of one number of steps, so that a larger one
also sees more pairs.

Expected: more candidates in training help; from a temperature of 1 learning is slow, since it falls
little in so few steps; captions of the same objects are distinguished late, at any batch.

Cost: quick about 30 minutes on two cores; standard 21 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="What do larger batches, temperature and image tower do for contrastive learning?",
    baseline=Model("contrastive", mixer="attention", heads=4, position="learned"),
    axes=[
        vary("batch", [16, 64, 256], quick=[16, 64]),
        vary("has_learned_temperature", [True, False]),
        vary("similarity_temperature", [0.07, 1.0]),
        vary("encoder", ["vit", "cnn"]),
    ],
    tasks=["emoji_pairs"],
    probes=["quality", "floors", "parameters", "flops"],
    words={
        "baseline": "batches of 32 and a vision transformer",
        "batch=16": "batches of 16",
        "batch=64": "batches of 64",
        "batch=256": "batches of 256",
        "has_learned_temperature=false": "a fixed temperature",
        "similarity_temperature=1.0": "a temperature that starts at 1",
        "encoder=cnn": "a CNN",
    },
    claim=Claim(
        "with batches four times as large more captions are retrieved",
        metric="recall_at_1",
        a="batch=64",
        b="batch=16",
        by=0.03,
        source="Radford et al. 2021, arXiv:2103.00020, section 2.5",
        published="batches of 32,768 pairs",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=64,
            depth=2,
            length=19,
            steps=1_500,
            search_steps=750,
            batch=32,
            num_evaluations=5,
            seeds=5,
        ),
        "standard": Scale(
            dim=256,
            depth=4,
            length=19,
            steps=8_000,
            batch=32,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
