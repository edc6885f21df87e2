"""Which position encoding, and which of them serves beyond the length that it was trained at?

Vaswani et al. 2017 (arXiv:1706.03762, Table 3, row E): learned positions are as good as sinusoids.
Press et al. 2022 (arXiv:2108.12409, figure 1): sinusoids fail soon beyond the trained length, RoPE
later, T5's bias later still, ALiBi not at all. Here: six encodings and none in a language model of
characters, tested at up to 8 times the trained length, and there by position in the window. Shaw is
of arXiv:1803.02155, T5 of 1910.10683, RoPE of 2104.09864. Parameters differ by what is learned. At
standard they also translate, English to German as in Table 3, up to verses longer than trained on.

Expected: all but none are close at the trained length; beyond it ALiBi is best. T5 tells distances
apart up to 128, Shaw up to 16.

Found at quick, five seeds, bits per character: at the trained 64 tokens Shaw 2.713, T5 2.722, RoPE
2.734, sinusoids 2.771, learned 2.811, ALiBi 2.826, none 3.371. At 512 ALiBi 2.805, and better still
Shaw 2.693, for which all tokens beyond 16 are equally far; none 3.73, T5 4.25, sinusoids 4.56, RoPE
4.65, learned 5.08. That is the published order, but RoPE and sinusoids do not differ at 512.

Cost: quick about 25 minutes on two cores; standard 25 on one H100, as planned; paper a cluster.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Which position encoding, and which serves beyond the length it was trained at?",
    baseline=Model(mixer="attention", heads=4, position="sinusoidal"),
    axes=[vary("position", ["none", "sinusoidal", "learned", "shaw", "t5", "rope", "alibi"])],
    tasks=["shakespeare_characters"],
    probes=["quality", "floors", "score_by_position", "parameters"],
    words={
        "position=none": "no positions",
        "position=sinusoidal": "sinusoids",
        "position=learned": "learned positions",
    },
    claim=Claim(
        "at 8 times the trained length ALiBi predicts better than sinusoids",
        metric="bits_per_character",
        at="length=512",
        a="position=alibi",
        b="position=sinusoidal",
        by=0.1,
        source="Press et al. 2022, arXiv:2108.12409, figure 1",
        published="beyond the trained length ALiBi keeps its perplexity and sinusoids lose theirs",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            tasks=["shakespeare_tragedies"],
            dim=64,
            depth=2,
            length=64,
            steps=1_000,
            batch=32,
            num_evaluations=5,
            seeds=5,
            test_lengths=[128, 256, 512],
        ),
        "standard": Scale(
            tasks=["shakespeare_characters", "bible_en_de"],
            dim=256,
            depth=6,
            length=64,
            steps=2_500,
            batch=64,
            warmup_steps=250,
            precision="bf16",
            gpus=1.0,
            test_lengths=[128, 256, 512, 1024],
        ),
        "paper": Scale(
            dim=512,
            depth=6,
            length=64,
            steps=100_000,
            batch=512,
            warmup_steps=4_000,
            gpus=1.0,
            test_lengths=[128, 256, 512, 1024],
        ),
    },
)
