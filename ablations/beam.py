"""How wide should the beam be, and how large the length penalty?

Wu et al. 2016 (arXiv:1609.08144, equation 14) divide log probabilities by ((5 + length) / 6)^a;
Vaswani et al. 2017 (arXiv:1706.03762) search with 4 beams and a = 0.6. Sutskever et al. 2014
(arXiv:1409.3215, Table 1): with five recurrent models, a beam of 12 gives 34.8 BLEU, of 2 34.5,
greedy search 33.0. People find that a beam gives recurrent models 1 to 2 BLEU, and convolutions and
Transformers none. Here: one training of each for all searches, of other widths or another a than 4
and 0.6, translating verses of the Bible into German. A beam is refilled when a hypothesis ends.

Expected: most of the gain comes with two beams; without a penalty wide beams write too short.

Found at quick, seven seeds, BLEU greedily, with 2, 4 and 8 beams at a = 0.6: Bahdanau's 10.3, 11.7,
11.7, 11.3; ConvS2S 16.6, 18.4, 18.7, 18.2; the Transformer 10.9, 12.1, 12.5, 12.3. So all three
gain alike, 1.4 to 2.1 with 4 beams. With 8 they write 0.85 to 0.92 words for each asked. a = 0
costs 0.1 to 0.7 BLEU. With three seeds the claim of 1 BLEU had been too small to be found.

Cost: quick about 55 minutes on two cores; standard 23 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="How wide should the beam be, and how large the length penalty?",
    baseline=Model("attentive_seq2seq", label="GRU with attention"),
    axes=[
        vary(
            "model",
            [
                Model("attentive_seq2seq", label="GRU with attention"),
                Model("conv_seq2seq", label="ConvS2S", depth=2),
                Model(
                    "translator",
                    label="Transformer",
                    mixer="attention",
                    heads=4,
                    position="sinusoidal",
                    norm_placement="pre",
                    depth=2,
                ),
            ],
        ),
        vary("beam", [1, 2, 4, 8, 16], quick=[1, 2, 4, 8]),
        vary("length_penalty", [0.0, 0.6, 1.0], quick=[0.0, 0.6]),
    ],
    combine="first_with_each",
    tasks=["bible_en_de"],
    probes=["quality", "floors", "written_scores", "parameters"],
    words={
        "length_penalty=0.0": "no length penalty",
        "beam=1": "1 beam",
        "beam=2": "2 beams",
        "beam=4": "4 beams",
        "beam=8": "8 beams",
    },
    claim=Claim(
        "a recurrent translator writes better with 4 beams than greedily",
        metric="written_bleu",
        a="model=GRU with attention",
        b="model=GRU with attention, beam=1",
        by=1.0,
        source="Sutskever et al. 2014, arXiv:1409.3215, Table 1",
        published="34.5 BLEU with 2 beams, 33.0 greedily, by an ensemble (English to French)",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=128,
            depth=1,
            length=40,
            steps=1_000,
            search_steps=300,
            batch=32,
            num_evaluations=4,
            seeds=7,
            beam=4,
        ),
        "standard": Scale(
            dim=256,
            depth=1,
            length=64,
            steps=1_900,
            batch=128,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
            beam=4,
        ),
    },
)
