"""What runs on the other side of the boundary.

Nothing here imports more than the standard library and its neighbours: the modules are sent as text to a fresh
interpreter, which need not have envweave. `forkserver` makes sessions, `supervisor` holds one and never runs code of
the agent, `worker` runs it. Once it has, nothing that the worker says is more than data.
"""
