"""Tasks on texts without labels, and tasks with labels whose words are the same symbols."""
