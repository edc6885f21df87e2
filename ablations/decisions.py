"""Does asking for a large return get one, and is that more than cloning the best players?

Chen et al. 2021 (Decision Transformer, arXiv:2106.01345): a causal Transformer reads returns to go,
states and actions, is asked for a return, and acts. Figure 4: what it gets follows what it is asked
for. Section 5.1, Table 3: cloning the best 10 % of the data is about as good where data are many.
Section 5.3, Table 5: without a long context it gets far less. Here: a corridor with a key, a grid
with wind, a pole on a cart; 1,000 episodes each, 40 % of a random player, 40 % of one that takes
the nearer prize, 20 % of an expert. One window is 20 steps, and actions are the likeliest.

Expected: cloning all gets what most players get; cloning the best tenth what the expert gets, and
so does asking for it; with one step of context the corridor's key is forgotten; any causal mixer
will do. Where wind blows, some of what is asked for is luck.

Cost: quick about 55 minutes on two cores; standard 25 on one H100, as planned.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Does asking for a large return get one, and is that more than cloning players?",
    baseline=Model("decision_transformer", mixer="attention", heads=4, position="none"),
    axes=[
        vary("has_returns", [True, False]),
        vary("length", [1, 5, 20, 40], quick=[1, 5, 20]),
        vary("mixer", ["attention", "gru", "conv", "mamba2", "gated_delta"],
             quick=["attention", "gru", "conv"]),
    ],
    tasks=["corridor_mixed", "corridor_best_tenth", "windy_grid_mixed", "windy_grid_best_tenth",
           "cart_pole_mixed", "cart_pole_best_tenth"],
    probes=["quality", "floors", "parameters", "flops"],
    claim=Claim(
        "asked for the best return, a Decision Transformer gets more than a clone of all players",
        metric="return_got",
        a="baseline",
        b="has_returns=false",
        by=0.1,
        task="corridor_mixed",
        source="Chen et al. 2021, arXiv:2106.01345, Figure 4 and Table 3",
        published="returns got follow returns asked for; clones of all data get less",
    ),
    recipe=Recipe(learning_rate=1e-3, clip_norm=0.25, weight_decay=1e-4),
    scales={
        "quick": Scale(dim=32, depth=2, length=20, steps=500, batch=32, num_evaluations=2, seeds=3),
        "standard": Scale(
            dim=128, depth=3, length=20, steps=10_000, batch=64, warmup_steps=500, seeds=3,
            precision="bf16", gpus=0.125,
        ),
    },
)  # fmt: skip
