"""Docker images that serve an environment.

`build.py` runs these steps in order: `target.py` resolves an ID or a folder; `context.py` writes the Docker build
context, with `wheel.py` for installed packages and `pip.py` for the settings of pip; `engine.py` has the Docker daemon
build it; `smoke_test.py` starts the image and resets the environment once.
"""
