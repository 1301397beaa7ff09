"""Sessions of the sandbox: how fast they start, run, fork and die, and what each costs in memory.

Peers that are compared take turns in the same minute. What a machine does not have (a Docker daemon, smolagents, the
right to look into another process) is left out, and said.
"""
