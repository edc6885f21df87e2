"""The questions: one declarative file each; a docstring and one ABLATION.

`THEMES` is their table of contents, by which `bakeoff list` groups them.
"""

THEMES: dict[str, tuple[str, ...]] = {
    "attention": ("heads", "scaling", "size", "sampling", "cache", "workspace"),
    "positions": ("positions", "patch_positions", "source_order"),
    "efficient mixers": ("complexity", "linear_attention", "long_range", "hashing", "latents"),
    "recurrences and states": ("recall", "state", "hybrid", "delta_rule", "gradients"),
    "translation": ("translation", "alignment", "beam", "teacher_forcing"),
    "vision": (
        "vision", "windows", "channel_attention", "depth_in_vision", "recipe", "distillation",
        "robustness",
    ),
    "pictures and words": (
        "captioning", "attention_supervision", "questions", "contrastive", "image_tokens",
    ),
    "pre-training and decisions": ("pretraining", "masking", "decisions"),
    "training": ("learning_rate", "regularisation", "scaling_laws", "budgets", "data_parallel"),
}  # fmt: skip
