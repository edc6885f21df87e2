"""Parts of vision models: windows of a grid, and what else several of them share."""
