"""How small may the cache of attention be before quality falls?

Decoding reads the keys and values of all tokens so far at each step. Shazeer 2019
(arXiv:1911.02150) shares one head of them among all heads (MQA), Ainslie et al. 2023
(arXiv:2305.13245) one among some (GQA), DeepSeek-V2 (MLA, arXiv:2405.04434) keeps one short vector
a token; a sliding window keeps the last tokens, with the first four beside them in StreamingLLM
(arXiv:2309.17453). Here: recall of pairs and language against the bytes of the cache, in two layers
of four heads, no feed-forward. GQA has two heads of keys, MQA one; MLA's vector 16 numbers and 8 of
rotation. At quick a window of 16 is as large as MQA's cache.

Expected: sharing heads loses little; a window loses what lies beyond it.

Found at quick, four seeds: attention, GQA, MQA and MLA recall all, a window 0.76, with sinks 0.71.

Cost: quick about 30 minutes on two cores; standard 25 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="How small may the cache of attention be before quality falls?",
    baseline=Model(mixer="attention", heads=4, position_mode="concatenated", feed_forward="none"),
    axes=[
        vary(
            "model",
            [
                Model(
                    mixer="grouped_query",
                    label="GQA",
                    key_value_heads=2,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
                Model(
                    mixer="grouped_query",
                    label="MQA",
                    key_value_heads=1,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
                Model(
                    mixer="latent_attention",
                    label="MLA",
                    latent_dim=16,
                    rope_dim=8,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
                Model(
                    mixer="sink_attention",
                    label="window of 12 with 4 sinks",
                    window=12,
                    sinks=4,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
                Model(
                    mixer="local_attention",
                    label="window of 16",
                    window=16,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
            ],
        )
    ],
    tasks=["mqar_small", "shakespeare_characters"],
    probes=["quality", "floors", "parameters", "flops", "state_bytes"],
    claim=Claim(
        "one head of keys for all heads recalls more than a window of 16 tokens",
        metric="accuracy",
        task="mqar_small",
        a="model=MQA",
        b="model=window of 16",
        by=0.1,
        source="Ainslie et al. 2023, arXiv:2305.13245, Table 1",
        published="multi-query attention is nearly as good as attention with all its heads",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=64,
            depth=2,
            length=64,
            steps=1_500,
            search_steps=800,
            batch=32,
            num_evaluations=4,
            seeds=4,
        ),
        "standard": Scale(
            dim=256,
            depth=4,
            length=512,
            steps=1_550,
            batch=64,
            warmup_steps=250,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
