"""An ablation in which variants fail in every way."""

from suite import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="Is every failure named rightly, and does none disturb the others?",
    baseline=Model(mixer="faulty_mixers:Good", position="none"),
    axes=[
        vary(
            "mixer",
            [
                f"faulty_mixers:{name}"
                for name in (
                    "Good", "RunsOutOfMemory", "AsksForTooMuch", "BecomesNaN", "Hangs", "HoldsOn",
                    "Segfaults", "Leaves", "RaisesOddly", "LeavesProcesses", "Poison",
                )
            ],
        )
    ],
    tasks=["fashion_mnist_patches"],
    probes=["quality"],
    scales={
        "quick": Scale(dim=8, depth=1, length=49, steps=6, batch=100, num_evaluations=1, seeds=1)
    },
)  # fmt: skip
