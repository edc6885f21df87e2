"""The SQLite journal: what is planned and what is done."""
