"""The driver of a sweep: determines which trials run, their order, and the steps at the end.

The driver passes trials to an executor: `bakeoff.suite.execution.inline` runs them on this machine
without Ray, `bakeoff.suite.cluster.execute` as Ray tasks, on this machine or a cluster. Each trial
is run by `bakeoff.suite.execution.trial`, in one process.
"""
