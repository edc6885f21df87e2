"""The answers: DataFrame in, document out."""
