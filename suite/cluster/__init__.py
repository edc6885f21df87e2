"""The only folder that imports ray: execution on a cluster."""
