"""The names of `envweave.envs.codeact`, where its users look for them."""

from envweave.envs.codeact import *  # noqa: F403
from envweave.envs.codeact import __all__  # noqa: F401
