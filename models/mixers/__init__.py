"""One mixer a file: paper, equation, cost, departures, slow reference, fast form."""
