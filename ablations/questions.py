"""Does a question about a picture need attention to its places, or is one sequence enough?

Antol et al. 2015 (VQA, arXiv:1505.00468, Table 2) set networks that read the question alone beside
those that join it with one vector of the image. Lu et al. 2019 (ViLBERT, arXiv:1908.02265) let
words look at regions, Li et al. 2019 (VisualBERT, arXiv:1908.03557) put words and regions into one
sequence. Here: scenes of two to four emoji, 48 x 48 pixels, and four kinds of questions, whose
answers are alike given the question, so that nothing is known without the picture.

Expected: the question alone is at its floor; cross-attention to places and one sequence of both
are far above it, and close to each other; "is there" and "where" are learnt before "how many".

Found at quick, five seeds, accuracy: cross-attention to patches 0.76, one sequence of both 0.75,
the question alone 0.26, as its floor. Over a convolutional map 0.87, which is not a significant
difference: seeds of the baseline have 0.69 to 0.84, and all still learn after 4,000 steps.

Cost: quick about 35 minutes on two cores; standard 20 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Does a question about a picture need attention to its places?",
    baseline=Model("question_answerer", mixer="attention", heads=4, position="learned"),
    axes=[
        vary("fusion", ["cross", "concatenation", "question"]),
        vary("encoder", ["vit", "cnn"]),
    ],
    tasks=["emoji_questions"],
    probes=["quality", "floors", "parameters", "flops"],
    words={
        "baseline": "attention to places",
        "fusion=cross": "attention to places",
        "fusion=concatenation": "one sequence of words and places",
        "fusion=question": "the question alone",
        "encoder=cnn": "places from a CNN",
    },
    claim=Claim(
        "attention to the picture answers more accurately than the question alone",
        metric="accuracy",
        a="baseline",
        b="fusion=question",
        by=0.1,
        source="Antol et al. 2015, arXiv:1505.00468, Table 2",
        published="models of the question alone are behind those that see the image",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=64,
            depth=2,
            length=8,
            steps=4_000,
            search_steps=2_000,
            batch=32,
            num_evaluations=5,
            seeds=5,
        ),
        "standard": Scale(
            dim=256,
            depth=4,
            length=8,
            steps=16_000,
            batch=64,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
