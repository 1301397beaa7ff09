"""An environment of ours that has tools."""

from envweave.core.environment import Environment


class WorkshopEnvironment(Environment):
    def reset(self, *, seed=None):
        self.collected = []
        return {}

    def step(self, action):
        return {}, 0.0, False, False, {}

    @property
    def tools(self):
        return [self.collect, self.words, self.fail]

    def collect(self, word: str) -> int:
        """Collect a word.

        Args:
            word: Any word.
        """
        self.collected.append(word)
        return len(self.collected)

    def words(self):
        """The words so far."""
        return {"words": self.collected}

    def fail(self) -> None:
        """Fails."""
        raise ValueError("no luck")
