"""Language models behind an OpenAI-compatible endpoint: one client, with the rules for its token in `secret`."""

from envweave.lm.body import Message
from envweave.lm.model import LanguageModel
from envweave.lm.usage import Usage

__all__ = ["LanguageModel", "Message", "Usage"]
