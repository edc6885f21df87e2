"""Which learning rate suits which mixer, and does it move with the number of steps?

A comparison at one rate favours the mixers that the rate suits. Arora, Eyuboglu et al. 2023
(Zoology, arXiv:2312.04927) try four rates, 1e-4 to 1e-2, for every mixer and width (the public
settings of figure 2). Wortsman et al. 2023 (arXiv:2309.14322, section 3.1): small Transformers,
too, end worse at high rates. `learning_rate="tuned"` searches for the rate of each variant in
trainings of a third of the steps; here the same rates are tried in trainings of a third and of all,
so that one sees what the rate of the shorter ones costs in the longer ones. Judged on validation
data; the last steps of each training cool down.

Expected: recurrences and convolutions bear higher rates than attention; more steps favour the same
rate or the next lower one.

Found at quick, three seeds: with 500 and 1,500 steps attention is best at 0.02 and 0.01, the LSTM
and the convolution at 0.01 and 0.005. The rate of the shorter training costs the longer one 0.046,
0.015 and 0.015 bit; 0.05 instead of the best rate costs 0.26, 0.23 and 0.09.

Cost: quick about 30 minutes on two cores; standard 20 on one H100, as planned; paper a cluster.
"""

from bakeoff import Ablation, Claim, Model, Scale, vary

ABLATION = Ablation(
    question="Which learning rate suits which mixer, and does it move with the number of steps?",
    baseline=Model("language_model", mixer="attention", heads=4, position="sinusoidal"),
    axes=[
        vary(
            "mixer",
            ["attention", "lstm", "conv", "linear_transformer"],
            quick=["attention", "lstm", "conv"],
        ),
        vary("steps", [500, 1_500, 5_000], quick=[500, 1_500]),
        vary(
            "learning_rate",
            [5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2],
            quick=[2e-3, 5e-3, 1e-2, 2e-2, 5e-2],
        ),
    ],
    combine="cross",
    tasks=["shakespeare_characters"],
    probes=["validation", "parameters"],
    claim=Claim(
        "attention that trains for 1,500 steps is better at a rate of 0.005 than at 0.05",
        metric="validation_bits_per_character",
        a="mixer=attention, steps=1500, learning_rate=0.005",
        b="mixer=attention, steps=1500, learning_rate=0.05",
        by=0.05,
        source="Wortsman et al. 2023, arXiv:2309.14322, section 3.1",
        published="at high rates small Transformers end worse, without normalised queries and keys",
    ),
    scales={
        "quick": Scale(
            tasks=["shakespeare_tragedies"],
            dim=64,
            depth=2,
            length=64,
            steps=1_500,
            batch=32,
            learning_rate=5e-3,
            num_evaluations=1,
            seeds=3,
        ),
        "standard": Scale(
            dim=256,
            depth=2,
            length=128,
            steps=1_500,
            batch=32,
            learning_rate=2e-3,
            num_evaluations=1,
            seeds=2,
            precision="bf16",
            gpus=1.0,
        ),
        "paper": Scale(
            dim=512,
            depth=6,
            length=512,
            steps=20_000,
            batch=128,
            learning_rate=5e-4,
            warmup_steps=500,
            num_evaluations=1,
            seeds=3,
            gpus=1.0,
        ),
    },
)
