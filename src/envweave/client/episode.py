"""What is known here of an episode that is played on a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envweave.requests import AutoresetReady, EndReason, EpisodeEnd, Request
from envweave.results import ResetResult, StepResult
from envweave.wire.faults import requests_from_data
from envweave.wire.results import pending_from_data, reset_from_data, step_from_data


class Episode:
    """Reads results in the order of their calls: each may leave out what the one before has said."""

    __slots__ = ("_told", "env_id", "id", "pending")

    def __init__(self, env_id: str) -> None:
        self.env_id = env_id
        self.id: str | None = None
        """Its name, where the server or the driver has said it."""
        self.pending: tuple[Request, ...] = ()
        """What the environment waits for; nothing if no episode is under way."""
        self._told: tuple[Request, ...] = ()

    def read_reset(self, data: Any) -> ResetResult[Any]:
        result = reset_from_data(data, self._told)
        self._note(data, result.requests)
        return result

    def read_step(self, data: Any) -> StepResult[Any]:
        result = step_from_data(data, self._told)
        if result.requests is not self._told:
            for request in result.requests:
                if isinstance(request, AutoresetReady):
                    self.id = request.episode_id
        self._note(data, result.requests)
        return result

    def read_restored(self, data: Mapping[str, Any]) -> None:
        """Another episode, or another point of this one; the next result says all of its requests."""
        self._note(data, ())

    def _note(self, data: Mapping[str, Any], requests: tuple[Request, ...]) -> None:
        self._told = requests
        self.pending = pending_from_data(data, requests)

    def join(self, data: Mapping[str, Any]) -> None:
        """Stand where a fork begins."""
        self.pending = requests_from_data(data.get("pending", ()))

    def end(self, reason: EndReason, info: dict[str, Any]) -> tuple[Request, ...]:
        """Say the end that the server cannot say any more, once."""
        if not self.pending:
            return ()
        self.pending = ()
        return (EpisodeEnd(env_id=self.env_id, reason=reason, final_info=info, episode_id=self.id),)
