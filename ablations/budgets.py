"""Does the order of mixers change with the budget that is equal?

At equal steps and width a mixer with more parameters, or more FLOPs per token, has an advantage
that is not one of its kind. Narang et al. 2021 (arXiv:2102.11972) compare modifications of the
Transformer at similar numbers of parameters and operations, where most of them bring nothing. Dao
and Gu 2024 (Mamba-2, arXiv:2405.21060), Figure 9, compare at equal FLOPs, where Mamba-2 is ahead of
the Transformer. Here: language models on Shakespeare, in which each mixer has the steps, the
FLOPs, the training time or the parameters of attention. At equal FLOPs or time a costly mixer takes
fewer steps; at equal parameters a large one has a narrower feed-forward. Half and twice the steps
show whether the order changes with the length of training; from the three trainings of attention
follows the effective speedup of each other mixer: the FLOPs that attention needs for its score,
over its own.

Expected: at this width Mamba-2 takes about 1.6 times the FLOPs of attention and has half as many
parameters again, so its lead is smaller at equal FLOPs and at equal parameters.

Cost: quick about 58 minutes on two cores, standard 25 on one H100, both as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Does the order of mixers change with the budget that is equal?",
    baseline=Model("language_model", mixer="attention", heads=4, position="sinusoidal"),
    axes=[
        vary(
            "mixer",
            ["attention", "lstm", "linear_transformer", "mamba2", "gated_delta"],
            quick=["attention", "lstm", "mamba2"],
        ),
        vary("equal", ["steps", "flops", "seconds", "parameters"]),
        vary("steps", [625, 1_250, 2_500]),
    ],
    combine="first_with_each",
    tasks=["shakespeare_characters"],
    probes=["quality", "floors", "parameters", "flops"],
    claim=Claim(
        "Mamba-2 is better than attention at equal FLOPs",
        metric="bits_per_character",
        a="mixer=mamba2, equal=flops",
        b="mixer=attention, equal=flops",
        by=0.02,
        source="Dao and Gu 2024, arXiv:2405.21060, Figure 9",
        published="Mamba-2 is ahead of a Transformer in perplexity at equal FLOPs, 125M to 1.3B",
    ),
    recipe=Recipe(learning_rate="tuned"),
    opens_with="by equal",
    words={
        "equal=steps": "equal steps",
        "equal=flops": "equal FLOPs",
        "equal=seconds": "equal time",
        "equal=parameters": "equal parameters",
    },
    scales={
        "quick": Scale(
            tasks=["shakespeare_tragedies"],
            dim=64,
            depth=2,
            length=64,
            steps=1_250,
            search_steps=300,
            batch=32,
            num_evaluations=5,
            seeds=4,
        ),
        "standard": Scale(
            dim=256,
            depth=4,
            length=128,
            steps=1_250,
            search_steps=200,
            batch=64,
            warmup_steps=125,
            seeds=3,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
