"""What do dropout, label smoothing, warm-up and the placement of the norm do in overfitting?

Vaswani et al. 2017 (arXiv:1706.03762), Table 3, rows D: without dropout 24.6 BLEU against 25.8;
without label smoothing perplexity falls from 4.92 to 4.67 and BLEU to 25.3: smoothing hurts what
is measured in bits and helps what is counted right. Xiong et al. 2020 (arXiv:2002.04745): with the
norm after the sum (post) warm-up is needed, before (pre) it is not. Here: a language model that
passes over an act of Hamlet 45 times, and is tested on other plays; the paper's recipe (dropout
0.1, warm-up, post) with one thing changed at a time. Each variant has its own learning rate, found
in trainings of all steps: in shorter ones nothing overfits, and too high a rate comes out best.
Beside the test score stands that on the training data: the difference is what is overfitted.

Expected: dropout narrows the gap and helps the test score; smoothing costs bits.

Found at quick, five seeds: 3.351 bits; no dropout +0.112, dropout 0.2 +0.103, smoothing -0.116; no
warm-up and pre-norm make no significant difference. At the rates of searches in a third of the
steps, no dropout lost 0.854.

Cost: quick about 20 minutes on two cores; standard 24 on one H100, as planned; paper a cluster.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="What do dropout, label smoothing, warm-up and the placement of the norm do?",
    baseline=Model(
        "language_model",
        mixer="attention",
        heads=4,
        position="sinusoidal",
        dropout=0.1,
        norm_placement="post",
    ),
    axes=[
        vary("dropout", [0.0, 0.1, 0.2]),
        vary("label_smoothing", [0.0, 0.1]),
        vary("warmup_steps", [0, 50, 400, 4_000], quick=[0, 50]),
        vary("norm_placement", ["post", "pre"]),
    ],
    tasks=["shakespeare_act"],
    probes=["quality", "floors", "training_score", "parameters"],
    words={
        "baseline": "dropout of 0.1 and the norm after each layer",
        "dropout=0.0": "no dropout",
        "dropout=0.1": "dropout of 0.1",
        "dropout=0.2": "dropout of 0.2",
        "label_smoothing=0.1": "label smoothing of 0.1",
        "warmup_steps=0": "no warm-up",
        "norm_placement=pre": "the norm before each layer",
    },
    claim=Claim(
        "dropout of 0.1 beats none where a model overfits",
        metric="bits_per_character",
        a="baseline",
        b="dropout=0.0",
        by=0.02,
        source="Vaswani et al. 2017, Table 3, rows D",
        published="25.8 BLEU with dropout 0.1, 24.6 without (English to German)",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=64,
            depth=2,
            length=64,
            steps=900,
            search_steps=900,
            batch=32,
            warmup_steps=50,
            seeds=5,
            num_evaluations=6,
        ),
        "standard": Scale(
            dim=256,
            depth=4,
            length=128,
            steps=4_000,
            search_steps=4_000,
            batch=64,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
        "paper": Scale(
            dim=512,
            depth=6,
            length=512,
            steps=100_000,
            search_steps=100_000,
            batch=128,
            warmup_steps=4_000,
            gpus=1.0,
        ),
    },
)
