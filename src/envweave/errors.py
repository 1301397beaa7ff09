"""Everything envweave raises, ordered by who can fix it.

EnvWeaveError
├── UsageError                 the caller: nothing has changed, correct the call
│   ├── InvalidIDError         the string is not an environment ID
│   ├── EnvNotFoundError       no resolver knows the ID
│   ├── VersionError           the name exists, the version asked for does not
│   ├── DuplicateIDError       the ID is registered already
│   ├── UnavailableError       a scheme, backend or extra that is not installed
│   ├── TaskNotFoundError      no task has that ID or index, or no split that name
│   ├── InvalidActionError     the action does not fit its schema
│   ├── WrongAgentError        an agent acted out of turn, or is missing
│   ├── ResetNeededError       step before reset, or after the end
│   ├── BusyError              a call on this environment is still running
│   ├── ClosedError            the handle was closed
│   ├── BatchRefusedError      another action of the same batch was refused
│   └── UnsupportedError       this environment does not support that
├── EnvError                   the author: environment code raised; the cause is chained
│   ├── BadResultError         reset or step returned something that has no meaning
│   └── NotJSONableError       a value must become JSON and cannot
├── WaitTimeoutError           still running; wait again
├── SandboxError               the sandbox could not run the code
│   ├── IsolationError         this machine does not support the isolation asked for
│   └── SessionEndedError      the session in the sandbox has ended
├── LanguageModelError         the language model: its endpoint refused, failed or gave an invalid answer
│   ├── ContextOverflowError   the conversation is longer than the model accepts
│   ├── ModelAuthenticationError  the key is missing, wrong or not allowed to use the model
│   ├── InvalidReplyError      the answer is not a chat completion, or holds something that cannot be read
│   └── ModelUnavailableError  it is unreachable, overloaded or too slow; retry later
│       ├── RateLimitError     too many requests or tokens
│       ├── ModelTimeoutError  no answer within the time of the call
│       └── IncompleteStreamError  a streamed reply ended before it was complete
├── RolloutError               nothing but failures came of the first groups of a rollout
├── TransportError             the connection
│   ├── CapacityError          the server accepts no more sessions now
│   ├── SessionLostError       the session and its episode are lost
│   ├── UnauthorizedError      the token is missing or wrong
│   └── ProtocolError          a message that cannot be understood
├── ProviderError              the machine, container or cluster
│   └── ProviderUnreachableError  the daemon or the API server does not answer
└── RecordError                the folder of a record cannot be written, or its contents cannot be read
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from envweave.requests import Request


def describe(error: BaseException) -> str:
    """Type and text of an exception."""
    try:
        text = str(error).encode(errors="backslashreplace").decode()  # JSON has no lone surrogates
    except Exception:  # a third-party __str__ may raise anything
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class EnvWeaveError(Exception):
    """Base class of all errors that envweave raises."""

    code: ClassVar[str] = "error"
    """Stable; also used on the wire."""
    retryable: ClassVar[bool] = False
    requests: tuple[Request, ...] = ()
    """What the environment had still to say, in particular the `episode_end`."""
    result: Any = None
    """The unscored result of the step that failed, for callers that turn errors into results."""
    by_environment: bool = False
    """Environment code refused an action that the rules had taken."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def to_data(self) -> dict[str, str]:
        """The error as data, as in `info["error"]` and on the wire."""
        data = {"code": self.code, "type": type(self).__name__, "message": self.message}
        return {**data, "hint": self.hint} if self.hint else data


class UsageError(EnvWeaveError):
    """The call was wrong; no environment has changed."""

    code = "usage"


class InvalidIDError(UsageError):
    """The string cannot be read as `scheme://locator[@version][?key=value]`."""

    code = "usage.invalid_id"


class EnvNotFoundError(UsageError):
    """No resolver knows the ID."""

    code = "usage.env_not_found"


class VersionError(UsageError):
    """The environment exists, but not in the version asked for."""

    code = "usage.version"


class DuplicateIDError(UsageError):
    """The ID is taken."""

    code = "usage.duplicate_id"


class UnavailableError(UsageError):
    """A scheme, backend or optional package that is not installed."""

    code = "usage.unavailable"


class TaskNotFoundError(UsageError, LookupError):
    """No task has that ID or index, or no split that name."""

    code = "usage.task_not_found"


class InvalidActionError(UsageError):
    """The action does not fit. Raised by an environment, it promises that nothing has changed."""

    code = "usage.invalid_action"


class WrongAgentError(UsageError):
    """An agent acted out of turn, or an agent that must act did not."""

    code = "usage.wrong_agent"


class ResetNeededError(UsageError):
    """The environment was not reset yet, or its episode is over."""

    code = "usage.reset_needed"


class BusyError(UsageError):
    """A call on this environment has not returned yet."""

    code = "usage.busy"


class ClosedError(UsageError):
    """The handle was closed."""

    code = "usage.closed"


class BatchRefusedError(UsageError):
    """Another action of the same batch was refused, so none was used."""

    code = "usage.batch_refused"


class UnsupportedError(UsageError):
    """The environment does not offer this."""

    code = "usage.unsupported"


class EnvError(EnvWeaveError):
    """Environment code raised. The episode is over; `__cause__` is what it raised."""

    code = "env"


class BadResultError(EnvError):
    """`reset` or `step` returned something that no supported convention defines."""

    code = "env.bad_result"


class NotJSONableError(EnvError):
    """A value must become JSON and cannot; the message names the field."""

    code = "env.not_jsonable"


class WaitTimeoutError(EnvWeaveError):
    """The answer did not come in time. It is not lost; wait again."""

    code = "wait_timeout"
    retryable = True


class SandboxError(EnvWeaveError):
    """The sandbox could not run the code; a program that merely fails is a result."""

    code = "sandbox"


class IsolationError(SandboxError):
    """The machine does not support the isolation that was asked for."""

    code = "sandbox.isolation"


class SessionEndedError(SandboxError):
    """The session is over: its code was killed and the policy was to end it, or its supervisor was lost."""

    code = "sandbox.session_ended"


class LanguageModelError(EnvWeaveError):
    """The endpoint of a language model refused the call, failed, or gave an invalid answer."""

    code = "model"


class ContextOverflowError(LanguageModelError):
    """The conversation, or it and the reply that was asked for, is longer than the model accepts."""

    code = "model.context_overflow"


class ModelAuthenticationError(LanguageModelError):
    """The endpoint refuses the key, or requires one."""

    code = "model.authentication"


class InvalidReplyError(LanguageModelError):
    """The answer is not a chat completion, or a tool call in it cannot be read."""

    code = "model.invalid_reply"


class ModelUnavailableError(LanguageModelError):
    """The model is unreachable, overloaded or too slow. The same call may work later."""

    code = "model.unavailable"
    retryable = True


class RateLimitError(ModelUnavailableError):
    """The endpoint refuses the call because there were too many of them, or too many tokens."""

    code = "model.unavailable.rate_limit"


class ModelTimeoutError(ModelUnavailableError):
    """There was no complete answer within the time of the call."""

    code = "model.unavailable.timeout"


class IncompleteStreamError(ModelUnavailableError):
    """A streamed reply ended before it was complete. The part that came is not a reply."""

    code = "model.unavailable.incomplete_stream"


class RolloutError(EnvWeaveError):
    """Nothing but failures came of the first groups of a rollout."""

    code = "rollout_failed"


class TransportError(EnvWeaveError):
    """The connection to an environment failed."""

    code = "transport"
    retryable = True


class CapacityError(TransportError):
    """The server has as many sessions as it accepts. Try again later."""

    code = "transport.capacity"


class SessionLostError(TransportError):
    """The server closed the session, or was stopped or restarted. The episode cannot be continued."""

    code = "transport.session_lost"
    retryable = False


class UnauthorizedError(TransportError):
    """The server requires a token and did not receive the right one."""

    code = "transport.unauthorized"
    retryable = False


class ProtocolError(TransportError):
    """A message that cannot be read or understood. Its session goes on."""

    code = "transport.protocol"
    retryable = False


class ProviderError(EnvWeaveError):
    """A process, container or pod could not be started or was lost."""

    code = "provider"
    retryable = True


class ProviderUnreachableError(ProviderError):
    """The daemon or the API server does not answer. What it started may still run."""

    code = "provider.unreachable"


class RecordError(EnvWeaveError):
    """A record cannot be written or read. `result` is the result of the step that was not recorded, if there is one."""

    code = "record"


def is_unreachable(error: EnvWeaveError) -> bool:
    """Whether a server was not found for as long as the client looks for it; not for a session that it has lost."""
    lost = isinstance(error, SessionLostError)
    return isinstance(error.__cause__ if lost else error, TransportError)
