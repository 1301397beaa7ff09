"""Environments as a language model sees them: `environment.py` explains how, and what an author may define."""

from envweave.chat.options import Chat, ChatObservation, reply_rule

__all__ = ["Chat", "ChatObservation", "reply_rule"]
