"""The driver of a sweep: decides which trials run, in which order, and what follows at its end.

The driver gives trials to an executor: `suite.execution.inline` runs them on this machine without
Ray, `suite.cluster.execute` as Ray tasks, on this machine or a cluster. Each trial ends up in
`suite.execution.trial`, in one process.
"""
