"""Documents as HTML, Markdown, CSV and LaTeX."""
