"""Which image tokeniser lets a model draw pictures from captions best?

van den Oord et al. 2017 (VQ-VAE, arXiv:1711.00937) hand the gradient of a code straight on to the
encoder; Ramesh et al. 2021 (DALL-E, arXiv:2102.12092, section 2.1) draw from a Gumbel softmax, with
8,192 codes of 8 x 8 pixels; Yu et al. 2021 (ViT-VQGAN, arXiv:2110.04627, section 3.2) scale codes
to length 1, without which most are never used. Here: two to four emoji on 36 squares of 8 x 8
pixels; a first training finds the code, a second one draws by it. Judged is what is drawn: whether
the caption that is read off its pixels by rule is the one that was asked for.

Expected: 64 codes let pictures through as well as 256, and are less to learn: so it was in a pilot
of one training each. Without unit codes fewer are in use, and pictures come back no better.

Cost: quick about 40 minutes on two cores; standard 20 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Which image tokeniser lets a model draw pictures from captions best?",
    baseline=Model("image_tokens", mixer="attention", heads=4, position="learned", codes=256),
    axes=[
        vary("codes", [16, 64, 256, 1024], quick=[64]),
        vary("quantiser", ["straight_through", "gumbel"]),
        vary("has_unit_codes", [True, False]),
    ],
    tasks=["emoji_tokens"],
    probes=["quality", "floors", "parameters", "flops"],
    opens_with="drawings",
    words={
        "baseline": "256 codes of unit norm",
        "quantiser=gumbel": "codes by Gumbel-softmax",
        "has_unit_codes=true": "codes of unit norm",
        "has_unit_codes=false": "codes of any norm",
    },
    claim=Claim(
        "with codes of unit norm more pictures are drawn as described than with any norm",
        metric="pictures_right",
        a="baseline",
        b="has_unit_codes=false",
        by=0.03,
        source="Yu et al. 2021, arXiv:2110.04627, section 3.2",
        published="more codes of unit norm are used, and images are reconstructed better",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=96,
            depth=3,
            length=19,
            steps=1_200,
            search_steps=400,
            batch=32,
            start="emoji_pictures",
            pretraining_steps=800,
            pretraining_learning_rate=0.003,
            num_evaluations=3,
            seeds=4,
        ),
        "standard": Scale(
            dim=256,
            depth=6,
            length=19,
            steps=7_500,
            batch=64,
            warmup_steps=400,
            start="emoji_pictures",
            pretraining_steps=4_000,
            pretraining_learning_rate=0.002,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
