"""Fail the build, in two lines, if the image does not hold the environment that it is to serve: `known.py ENV_ID`."""

import sys

from envweave.errors import EnvWeaveError
from envweave.registry.make import spec

try:
    spec(sys.argv[1])
except EnvWeaveError as error:
    sys.exit(str(error))
