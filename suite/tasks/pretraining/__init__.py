"""Tasks on texts without labels, and tasks with labels over the same vocabulary."""
