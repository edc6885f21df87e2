"""Tasks with a source and a target: one sequence is rewritten as another."""
