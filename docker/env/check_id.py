"""Fail the build, with a two-line error, if the image does not contain its environment: `check_id.py ENV_ID`."""

import sys

from envweave.errors import EnvWeaveError
from envweave.registry.make import spec

try:
    spec(sys.argv[1])
except EnvWeaveError as error:
    sys.exit(str(error))
