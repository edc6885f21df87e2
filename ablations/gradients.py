"""How far back does a gradient reach, and in which mixers does it vanish?

Hochreiter and Schmidhuber 1997 (Neural Computation 9(8)): what a plain recurrence passes back
shrinks exponentially with distance, a cell with gates can hold it constant. Bengio et al. 1994 and
Pascanu et al. 2013 (arXiv:1211.5063) say when it vanishes and when it explodes; Jozefowicz et al.
2015 (ICML) that an LSTM's forget gate must start open, with a bias of 1. Vaswani et al. 2017
(arXiv:1706.03762, Table 1): two tokens are one step apart in attention, n in a recurrence, and in a
convolution, which sees nothing beyond its reach, n / k. Here: the derivative of the last output by
the token k places before, relative to the last token's own, in a language model of characters.
Reach is not quality: the bits beside it show which model predicts best.

Expected: attention is flat; a plain RNN falls by a constant factor a token; a convolution cuts off;
gates let far more through, and an LSTM whose forget gate starts open the most.

Found at quick, five seeds (a pilot had three): 64 tokens back reach, as powers of ten, before
training -6.1 in the LSTM, -12.4 with its forget gate half closed, -12 in the GRU, -22 in the RNN,
-2.1 in attention; after it -6.4, -7.9, -7.1, -14 and -4.0. Reach is not quality: the RNN predicts
as well as the LSTM (2.776 and 2.774 bits), attention worse (2.819), the GRU best (2.707).

Cost: quick about 10 minutes on two cores; standard 24 on one H100, as planned; paper a cluster.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="How far back does a gradient reach in each mixer, before training and after?",
    baseline=Model("language_model", mixer="lstm", forget_bias=1.0, position="sinusoidal"),
    axes=[
        vary(
            "mixer",
            ["rnn", "gru", "lstm", "conv", "dilated_conv", "attention"],
            quick=["rnn", "gru", "lstm", "conv", "attention"],
        ),
        vary("forget_bias", [0.0, 1.0]),
    ],
    tasks=["shakespeare_characters"],
    probes=["quality", "floors", "parameters", "gradient_by_distance"],
    words={
        "forget_bias=0.0": "LSTM without forget bias",
    },
    claim=Claim(
        "a trained LSTM carries ten times as much gradient over 64 tokens as an RNN",
        metric="trained_gradient_log10",
        at="distance=64",
        a="baseline",
        b="mixer=rnn",
        by=1.0,
        source="Hochreiter and Schmidhuber 1997, Neural Computation 9(8)",
        published="an LSTM learns lags of more than 1,000 steps, where earlier recurrences failed",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            tasks=["shakespeare_tragedies"],
            dim=64,
            depth=1,
            length=128,
            steps=1_000,
            batch=16,
            num_evaluations=5,
            seeds=5,
        ),
        "standard": Scale(
            dim=256,
            depth=6,
            length=256,
            steps=1_050,
            batch=64,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
        "paper": Scale(
            dim=512, depth=6, length=512, steps=100_000, batch=128, warmup_steps=4_000, gpus=1.0
        ),
    },
)
