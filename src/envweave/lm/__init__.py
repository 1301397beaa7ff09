"""Language models behind an OpenAI-compatible endpoint: one client, with the rules for its key in `secrets`."""

from envweave.lm.aio import AsyncLanguageModel
from envweave.lm.chunks import ReplyDelta
from envweave.lm.messages import FunctionCall, Message, Messages
from envweave.lm.model import LanguageModel
from envweave.lm.options import CallOptions
from envweave.lm.reply import Reply, Usage
from envweave.lm.stream import AsyncReplyStream, ReplyStream

__all__ = [
    "AsyncLanguageModel",
    "AsyncReplyStream",
    "CallOptions",
    "FunctionCall",
    "LanguageModel",
    "Message",
    "Messages",
    "Reply",
    "ReplyDelta",
    "ReplyStream",
    "Usage",
]
