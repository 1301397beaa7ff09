"""Several agents: turns, joining and leaving, and the conventions of PettingZoo."""
