"""The driver of a sweep: what is pending, in which order, and what follows at its end."""
