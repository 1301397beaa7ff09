"""How fast envweave is, mostly as ratios to a named peer that is measured in the same minute: `make bench`."""
