"""Servers in containers: how fast they start and step, how many run at once, and whether any is left behind."""
