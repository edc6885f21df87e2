"""What does it take no architecture to reach? One simple method a file, scored as models are."""
