"""What server and client say to each other: messages as data, and data as bytes. Nothing here does I/O.

docs/wire.md describes the protocol.
"""
