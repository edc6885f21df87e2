"""Which mixers recall what they have read?

Replace this text with notes of your own; the report shows them. The next commands are

    bakeoff plan my_ablation.py                   # what would run, and how long it takes
    bakeoff run my_ablation.py --scale smoke      # a quick check that everything runs
    bakeoff run my_ablation.py                    # the answer, with a report
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Which mixers recall what they have read?",
    # Every variant is this model with one value changed. `bakeoff list --mixers` shows the mixers.
    # Its knobs are keywords; the guide lists those of all models.
    baseline=Model(mixer="attention", heads=4, position_mode="concatenated", feed_forward="none"),
    # Any field of Model, Scale or Recipe, any knob of the mixer, "task", or "model" may vary.
    # Several axes are varied one at a time, unless combine="cross" is given.
    axes=[vary("mixer", ["attention", "linear_transformer", "gru"])],
    # `bakeoff list --tasks` shows the tasks.
    tasks=["mqar_small"],
    # "quality" is the score of each task; others are "step_time", "peak_memory", "flops".
    probes=["quality", "parameters"],
    # The claim is recorded before the first trial and tested at the end: `a` is better than `b`
    # by at least `by`, in the unit of the metric. Leave it out if you only want to look.
    claim=Claim(
        "attention recalls more than a GRU",
        metric="accuracy",
        a="mixer=attention",
        b="mixer=gru",
        by=0.1,
    ),
    # "tuned" first searches for the best learning rate of each variant; a number is the same rate
    # for all of them.
    recipe=Recipe(learning_rate=3e-3),
    # quick is the default scale. "standard" and "paper", for GPUs, can be added here.
    scales={"quick": Scale(dim=64, depth=2, length=32, steps=300, batch=32, seeds=3)},
)
