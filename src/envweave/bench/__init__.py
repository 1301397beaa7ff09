"""How fast it is, as ratios against a named peer in the same run: `python -m envweave.bench`."""
