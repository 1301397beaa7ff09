"""What a language model has been asked so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """A count that does not change any more; ask the model again for a newer one."""

    calls: int = 0
    """Calls begun. One that was tried three times is one."""
    failures: int = 0
    """Calls that ended in a `LanguageModelError`."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Tokens as the endpoint counts them; one that does not say adds nothing."""

    def plus(self, *, calls: int = 0, failures: int = 0, prompt_tokens: int = 0, completion_tokens: int = 0) -> Usage:
        """The sum."""
        return Usage(
            self.calls + calls,
            self.failures + failures,
            self.prompt_tokens + prompt_tokens,
            self.completion_tokens + completion_tokens,
        )
