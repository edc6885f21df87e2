"""How much faster do several workers train, and what does ZeRO save in memory?

Rajbhandari et al. 2020 (arXiv:1910.02054), section 3 and figure 1: with Adam in float32 a worker
holds 16 bytes of model state per parameter; divided among N workers by stages, 16/N of it is left
at stage 3, for half as much communication again. Here: one and two workers, stages 0 to 3, a small
language model, with the same batch, so that what is learnt is the same.

Expected: on two cores that one worker's arithmetic does not fill, and at this width, two workers
are little faster, and slower the more ZeRO divides: they mostly wait for each other. Two workers at
stage 3 hold 10 bytes per parameter, not 8, since DeepSpeed keeps a second copy of the parameters
that a worker updates.

Found at quick, six seeds: two workers are 1.31 times as fast as one, and 0.75, 0.61 and 0.41 times
at stages 1 to 3. A pilot with three seeds had left the claim open: its ranges overlapped.

Cost: quick about 20 minutes on two cores, most of it starting processes.
Standard and paper need two GPUs and are untried. For more workers, copy this file and vary more.
"""

from bakeoff import Ablation, Claim, Model, Scale, vary

ABLATION = Ablation(
    question="How much faster do several workers train, and what does ZeRO save in memory?",
    baseline=Model("language_model", mixer="attention", heads=8, position="sinusoidal"),
    axes=[vary("workers", [1, 2]), vary("zero", [0, 1, 2, 3])],
    combine="cross",
    tasks=["shakespeare_characters"],
    probes=["data_parallel"],
    words={"zero=0": "without ZeRO"},
    claim=Claim(
        "two workers train more tokens a second than one, without ZeRO",
        metric="tokens_per_second",
        a="workers=2, zero=0",
        b="workers=1, zero=0",
        by=0.0,
        source="Rajbhandari et al. 2020, arXiv:1910.02054, section 7.1",
        published="throughput that grows with the workers, from GPUs of a fast network",
    ),
    scales={
        "quick": Scale(dim=128, depth=2, length=64, steps=100, batch=16, zero=0, seeds=6),
        "standard": Scale(
            dim=512, depth=8, length=512, steps=100, batch=64, zero=0, precision="bf16", gpus=1.0
        ),
        "paper": Scale(
            dim=1024,
            depth=24,
            length=1024,
            steps=100,
            batch=64,
            zero=0,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
