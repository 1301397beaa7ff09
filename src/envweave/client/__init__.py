"""Environments on a server. Importing this is cheap: the packages that talk are loaded with the first connection."""

from envweave.client.env_client import EnvClient, HTTPEnvClient, connect, connect_vector

__all__ = ["EnvClient", "HTTPEnvClient", "connect", "connect_vector"]
