"""Does hard attention, which looks at one token, learn what soft attention learns?

Xu et al. 2015 (arXiv:1502.03044), Table 1: a decoder of captions that samples one location of the
image, trained by REINFORCE, beats one that takes the mean of all: BLEU-4 21.3 against 19.5 on
Flickr8k, 25.0 against 24.3 on COCO. It looks once for each word, and half of its batches are soft.
Here: the same estimator, with the constants of its code, and straight-through Gumbel (Jang et al.
2017, arXiv:1611.01144), against soft attention, in language models of two layers. All read the mean
when they are tested, so that they differ in training alone.

Needle asks for one look: the only value among noise. Recall asks for two in a row: each value looks
back at its key, then a query at that value. A second look is worth nothing before the first is
learnt, and all choices of a sequence, two for each token, share one cost: the noise of REINFORCE
grows with their number. Straight-through has a gradient for each choice, of another function.

Expected: all find the needle; only soft attention recalls, and the others guess among the values
shown (one in four at quick).

Found at quick, three seeds: all find the needle (1.000); recall: soft 0.998, REINFORCE 0.252,
straight-through 0.260, for a floor of 0.25.

Cost: quick about 8 minutes on two cores; standard 25 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Does hard attention, which looks at one token, learn what soft attention learns?",
    baseline=Model(
        mixer="hard_attention",
        estimator="soft",
        heads=1,
        position_mode="concatenated",
        feed_forward="none",
    ),
    axes=[vary("estimator", ["soft", "reinforce", "straight_through"])],
    tasks=["needle", "mqar_small"],
    probes=["quality", "floors"],
    words={
        "estimator=soft": "soft attention",
        "estimator=reinforce": "hard attention by REINFORCE",
        "estimator=straight_through": "hard attention by straight-through gradients",
    },
    claim=Claim(
        "soft attention recalls better than hard attention by REINFORCE",
        metric="accuracy",
        a="estimator=soft",
        b="estimator=reinforce",
        by=0.1,
        task="mqar_small",
        source="Xu et al. 2015, arXiv:1502.03044, Table 1",
        published="the other way round in captions: BLEU-4 19.5 against 21.3 (Flickr8k)",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=64,
            depth=2,
            length=32,
            steps=500,
            search_steps=350,
            batch=32,
            num_evaluations=5,
            seeds=3,
        ),
        "standard": Scale(
            dim=64,
            depth=2,
            length=128,
            steps=6_800,
            batch=256,
            warmup_steps=800,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
