"""`record=…` of `make` and `make_vector`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from envweave.core.handle import EnvHandle
from envweave.core.lookup import load
from envweave.core.spec import EnvSpec
from envweave.record import Recorder
from envweave.record.backend import RecordingBackend, recorded
from envweave.record.header import header_of, plain
from envweave.record.recording import Recording

RULES = ("autoreset", "chat", "deadline", "max_episode_steps")
"""Options of `make` that change what happens in an episode."""

PLACE = ("instance_id", "docker_image", "provider_options", "containers", "step_timeout", "max_workers")
CONNECTION = (
    *("token", "headers", "connect_timeout_s", "message_timeout_s", "max_message_bytes"),
    *("ping_interval_s", "ping_timeout_s", "action_type", "observation_type", "state_type"),
)


def record_made(
    record: Any, source: Any, options: dict[str, Any], prepare: Callable[..., EnvHandle[Any, Any, Any, Any]]
) -> EnvHandle[Any, Any, Any, Any]:
    """What `prepare` makes, recorded. Raises `RecordError` before anything is made."""
    recorder, owned = open_recorder(record, options)
    try:
        handle = prepare(source, **options)
        header = made_header(source, handle.spec, options)
        return recorded(handle, Recording(recorder, header, owned=owned))
    except BaseException:
        if owned:
            recorder.close()
        raise


def open_recorder(record: Any, options: Mapping[str, Any]) -> tuple[Recorder, bool]:
    """The recorder, and whether it was opened here. The token and the headers of a connection are secrets."""
    if isinstance(record, Recorder):
        return record, False
    headers = options.get("headers") or {}
    secrets = [str(value) for value in (options.get("token"), *headers.values()) if value]
    return Recorder(record, secrets=secrets), True


def made_header(source: Any, spec: EnvSpec | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The header of the episodes of an environment that was made with these options."""
    apart = (*RULES, *PLACE, *CONNECTION, "backend")
    args = {name: value for name, value in options.items() if name not in apart}
    backend = options.get("backend", "auto")
    return header_of(source, spec, args, rules=plain(options, RULES), backend=None if backend == "auto" else backend)


class RecordedPlan:
    """A plan of a vector's environment, whose backends are recorded."""

    def __init__(self, plan: Any, recorder: Recorder, header: Mapping[str, Any]) -> None:
        self._plan = plan
        self._recorder = recorder
        self._header = header

    def build(self) -> Any:
        return self._plan.build()

    def open(self, id: str, env: Any = None) -> RecordingBackend:
        """Each backend has a recording of its own, the one in place of a backend that failed too."""
        handle: EnvHandle[Any, Any, Any, Any] = EnvHandle(self._plan.open(id, env))
        return RecordingBackend(handle, Recording(self._recorder, self._header))


def recording_executor(executor: Any, recorder: Recorder, header: Mapping[str, Any]) -> Any:
    """The executor of a server's environments, whose calls are recorded."""
    return load("envweave.vector.recording:RecordingExecutor")(executor, recorder, header)
