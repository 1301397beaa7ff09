"""Which endpoint an operator's variables name, and which secret goes to which URL.

| secret                    | goes to                                                   | never to                    |
|---------------------------|-----------------------------------------------------------|-----------------------------|
| a caller's `hf_token`     | `HF_INFERENCE_URL`, or Hugging Face's router              | any other URL               |
| `LLM_API_KEY`             | `LLM_BASE_URL`                                            | `OPENAI_BASE_URL`, HF       |
| `OPENAI_API_KEY`          | `OPENAI_BASE_URL`, if there is no `LLM_BASE_URL`          | `LLM_BASE_URL`, HF          |
| `HF_TOKEN` (the operator) | `HF_INFERENCE_URL`, or the router, if neither URL is set  | any other URL; a call of    |
|                           | and no caller's token was given                           | somebody with an own token  |

A secret goes with the URL of its own name and is not lent to another, so a stray `OPENAI_API_KEY` does not reach
somebody's local server. Hugging Face tokens go over https, or to a loopback address.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from envweave.errors import UsageError
from envweave.lm.address import checked_url

HF_ROUTER = "https://router.huggingface.co/v1"
DEFAULT_MODEL = "Qwen/Qwen3-Coder-480B-A35B-Instruct"
"""Served by several providers behind Hugging Face's router; open weights, and it does not think before it answers."""
HF_SAMPLING: Mapping[str, Any] = {"top_p": 0.95}
"""Only what every provider behind the router understands; `LLM_EXTRA` adds more."""


def settings_from(model: str | None, hf_token: str | None, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """The arguments of a `LanguageModel`, or None if no endpoint is configured.

    Sampling fields beyond `temperature` and `max_tokens` are the JSON object in `LLM_EXTRA`.
    """
    name = model or environ.get("LLM_MODEL") or DEFAULT_MODEL
    own, openai = environ.get("LLM_BASE_URL"), environ.get("OPENAI_BASE_URL")
    if hf_token:
        place = _hugging_face(hf_token, environ)
    elif own:
        place = {"base_url": own, "api_key": environ.get("LLM_API_KEY")}
    elif openai:
        place = {"base_url": openai, "api_key": environ.get("OPENAI_API_KEY")}
    elif environ.get("HF_TOKEN"):
        place = _hugging_face(environ["HF_TOKEN"], environ)
    else:
        return None
    return {"model": name, **place, "extra_body": {**place.get("extra_body", {}), **_extra(environ)}}


def _hugging_face(token: str, environ: Mapping[str, str]) -> dict[str, Any]:
    url = checked_url(environ.get("HF_INFERENCE_URL") or HF_ROUTER, private=True)
    return {"base_url": url, "api_key": token, "extra_body": HF_SAMPLING}


def _extra(environ: Mapping[str, str]) -> Mapping[str, Any]:
    text = environ.get("LLM_EXTRA") or "{}"
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    nested = found.pop("extra_body", {}) if isinstance(found, dict) else None  # as in arguments of OpenAI's client
    if not isinstance(found, dict) or not isinstance(nested, dict):
        raise UsageError("LLM_EXTRA is not a JSON object", 'such as {"top_p": 0.9}')
    return {**found, **nested}
