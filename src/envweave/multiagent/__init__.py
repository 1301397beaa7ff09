"""Environments for several agents: turns, joining and leaving, and PettingZoo's turn-based convention."""
