"""What a package outside of envweave offers: an environment, a spec, and a scheme of its own."""

from random import Random

from envweave import EnvSpec
from envweave.core.ids import EnvID
from envweave.errors import EnvNotFoundError, VersionError
from envweave.registry.resolvers.base import Resolver


class Coin:
    """Guess a coin."""

    def __init__(self, *, sides: int = 2):
        self.sides = sides

    def reset(self, *, seed=None):
        self.up = Random(seed).randrange(self.sides)
        return {"sides": self.sides}

    def step(self, action: int):
        return {"up": self.up}, float(action == self.up), True, False, {}


SPEC = EnvSpec(id="ignored", factory=Coin, kwargs={"sides": 6}, description="Guess a die.")


class CoinResolver(Resolver):
    """`coin://6` is a coin with six sides."""

    def resolve(self, id: EnvID) -> EnvSpec:
        if id.version:
            raise VersionError(f"coins have no version {id.version!r}")
        if not id.locator.isdigit():
            raise EnvNotFoundError(f"{id.locator!r} is not a number of sides")
        return EnvSpec(id=f"coin-{id.locator}", factory=Coin, kwargs={"sides": int(id.locator)})
