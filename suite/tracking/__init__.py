"""The only folder that imports mlflow: client, writer, reader and dashboard."""
