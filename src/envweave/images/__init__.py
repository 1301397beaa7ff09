"""Images of environments: what goes into them, and how they are built and tried.

The way of a build: `target.py` says what is asked for · `context.py` writes what is sent to the daemon, with a
`wheel.py` of what is installed here and the settings of `pip.py` · `build.py` has the daemon build it · `trial.py`
plays it once. `image.py` does all of this in order.
"""
