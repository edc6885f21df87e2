"""From which length on is linear attention faster, and does it learn recall as soon?"""

from bakeoff import Ablation, Claim, Model, Scale, vary

ABLATION = Ablation(
    question="From which length on is linear attention faster, and does it learn recall as soon?",
    baseline=Model(mixer="attention", heads=1, position_mode="concatenated", feed_forward="none"),
    axes=[vary("mixer", ["attention", "linear_transformer"])],
    tasks=["mqar_small"],
    probes=["quality", "floors", "mixer_time"],
    claim=Claim("after 300 steps attention recalls more", metric="accuracy",
                a="mixer=attention", b="mixer=linear_transformer", by=0.1),
    scales={"quick": Scale(
        dim=64, depth=2, length=32, steps=300, batch=32, learning_rate="tuned", search_steps=200,
        lengths=[128, 256, 512, 1024],
    )},
)  # fmt: skip
