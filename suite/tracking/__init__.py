"""The only package that imports mlflow: client, writer, reader and dashboard."""
