"""Sessions of the sandbox: how fast they start, run, fork and are killed, and how much memory each takes.

Figures that need what a machine does not have (a Docker daemon, smolagents, permission to read the memory of another
process) are skipped with a message.
"""
