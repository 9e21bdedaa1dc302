"""The messages between the master and the workers of a distributed run, on Locust's own connection.

Each record is one message, on the socket that also carries the workers' ends. ZeroMQ keeps their order: once a worker
has reported its end, all of its records are here.
"""

JOIN = "enginebench_join"
"""Worker to master: I belong to your run; here is its token."""
REFUSED = "enginebench_refused"
"""Master to worker: you may not join, and why."""
SHARD = "enginebench_shard"
"""Master to worker: your part of the prompts and counts."""
HAVE_SHARD = "enginebench_have_shard"
"""Worker to master: I have it."""
WARM = "enginebench_warm"
"""Worker to master: my users are there, and my warm-up requests have ended."""
GO = "enginebench_go"
"""Master to worker: all workers are warm, measure."""
RECORD = "enginebench_record"
"""Worker to master: one request that has ended, with the `level` of a capacity search that it is evidence on, and the
`part` (step or phase) in which it was sent, by the worker's clock."""
OVER = "enginebench_over"
"""Worker to master: I have sent all my requests."""
END_LEVEL = "enginebench_end_level"
"""Master to worker: admit no more requests to this level (its number) of a capacity search."""
LEVEL_OVER = "enginebench_level_over"
"""Worker to master: all my requests of this level have ended."""
LEVEL = "enginebench_level"
"""Master to worker: go to this level; null ends the test."""
DRAIN = "enginebench_drain"
"""Master to worker: let the requests in flight end, then report."""
END = "enginebench_end"
"""Worker to master: the result of my part; nothing comes after it."""
