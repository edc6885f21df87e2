"""Export of documents as HTML, Markdown, CSV and LaTeX."""
