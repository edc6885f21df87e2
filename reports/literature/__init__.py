"""Published figures: the tables and how they are matched with results."""
