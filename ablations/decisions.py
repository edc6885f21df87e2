"""Does conditioning on a large return yield one, and more than behaviour cloning?

Chen et al. 2021 (Decision Transformer, arXiv:2106.01345): a causal Transformer reads returns to go,
states and actions, and acts. Its returns follow what is asked for (section 5.2, Figure 4); a clone
of the best tenth of the data comes close (5.1); a long context helps (5.3). Siebenborn et al. 2022
(arXiv:2211.14655) put an LSTM in place of attention. If chance decides, a large return stands for
chance events, not for good actions (Paster et al. 2022, arXiv:2205.15967): among the worlds here, a
slippery corridor with a key and a grid with wind are such, a pole on a cart is not.

Data: 1,000 episodes of each world, 40 % of a random player, 40 % of one that takes what is nearest,
20 % of an expert; all of them, or the best tenth. Episodes, and the starts that are played, are the
same for all seeds: intervals hold the chance of trainings, not that of data.

All train at one rate, 1e-3. In pilots on the corridor, a seed each, attention, GRU and convolution
got 0.66, 0.65 and 0.65 at it; at 3e-4 600 steps do not suffice (0.22, 0.22, 0.40); attention got
0.66 at 3e-3, too. Returns tie, so that a search would not find a best rate.

Expected: clones of all players get what most get; those of the best tenth as much as a model
conditioned on the best return; with one step of context some forget the key; recurrent and
convolutional mixers do too.

Cost: quick about 13 minutes on two cores, standard 23 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Does conditioning on a large return yield one, and more than behaviour cloning?",
    baseline=Model("decision_transformer", mixer="attention", heads=4, position="none"),
    axes=[
        vary("has_returns", [True, False]),
        vary("length", [1, 5, 20]),
        vary(
            "mixer",
            ["attention", "gru", "lstm", "conv", "mamba2", "gated_delta"],
            quick=["attention", "gru", "conv"],
        ),
    ],
    tasks=[
        "corridor_mixed",
        "corridor_best_tenth",
        "windy_grid_mixed",
        "windy_grid_best_tenth",
        "cart_pole_mixed",
        "cart_pole_best_tenth",
    ],
    probes=["quality", "floors", "parameters", "flops"],
    words={
        "baseline": "the Decision Transformer",
        "has_returns=true": "conditioned on the return",
        "has_returns=false": "behaviour cloning",
        "length=1": "contexts of 1 step",
        "length=5": "contexts of 5 steps",
    },
    claim=Claim(
        "conditioned on the best return, a Decision Transformer beats behaviour cloning",
        metric="return_got",
        a="baseline",
        b="has_returns=false",
        by=0.1,
        task="corridor_mixed",
        source="Chen et al. 2021, arXiv:2106.01345, sections 5.1 and 5.2",
        published="returns follow the requested ones; cloning needs the best of the data",
    ),
    recipe=Recipe(learning_rate=1e-3, clip_norm=0.25),
    scales={
        "quick": Scale(dim=32, depth=2, length=20, steps=600, batch=32, num_evaluations=2, seeds=5),
        "standard": Scale(
            dim=128,
            depth=3,
            length=20,
            steps=4_000,
            batch=64,
            warmup_steps=400,
            seeds=3,
            num_evaluations=2,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
