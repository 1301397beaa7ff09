"""Everything envweave raises, sorted by who can fix it.

EnvWeaveError
├── UsageError                 the caller: nothing has changed, correct the call
│   ├── InvalidIDError         the string is not an environment ID
│   ├── EnvNotFoundError       no resolver knows the ID
│   ├── VersionError           the name exists, the version asked for does not
│   ├── DuplicateIDError       the ID is registered already
│   ├── UnavailableError       a scheme, backend or extra that is not here
│   ├── InvalidActionError     the action does not fit its schema
│   ├── WrongAgentError        an agent acted out of turn, or is missing
│   ├── ResetNeededError       step before reset, or after the end
│   ├── BusyError              a call on this environment is still running
│   ├── ClosedError            the handle was closed
│   ├── BatchRefusedError      another action of the same batch was refused
│   └── UnsupportedError       this environment cannot do that
├── EnvError                   the author: environment code raised; the cause is chained
│   ├── BadResultError         reset or step returned something without a meaning
│   └── NotJSONableError       a value has to cross a boundary and cannot
├── WaitTimeoutError           nobody is wrong: the answer has not come yet and is not lost
├── SandboxError               untrusted code could not be run
│   ├── IsolationError         walls of the strength asked for cannot be had here
│   └── SessionEndedError      the session in the sandbox is over
├── LanguageModelError         the language model: its endpoint refused, failed or answered nonsense
│   └── ModelUnavailableError  it cannot be reached, has too much to do or is too slow: the same may work later
├── TransportError             the connection
│   ├── CapacityError          the server takes no more sessions now
│   ├── SessionLostError       the session is gone, and its episode with it
│   ├── UnauthorizedError      the token is missing or wrong
│   └── ProtocolError          a message that has no meaning
└── ProviderError              the machine, container or cluster
    └── ProviderUnreachableError  nobody can be asked now: the daemon or the API server does not answer
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from envweave.requests import Request


def describe(error: BaseException) -> str:
    """Type and text of an exception; one that cannot even say what it is has no text."""
    try:
        text = str(error).encode(errors="backslashreplace").decode()  # a lone surrogate could not cross
    except Exception:  # anything may happen in somebody's __str__
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class EnvWeaveError(Exception):
    """Base of all errors here; `except EnvWeaveError` catches ours and nobody else's."""

    code: ClassVar[str] = "error"
    """Stable, and the same on the wire."""
    retryable: ClassVar[bool] = False
    requests: tuple[Request, ...] = ()
    """What the environment had still to say, the `episode_end` above all."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def to_data(self) -> dict[str, str]:
        """The error as data, the form in which it stands in `info["error"]` and on the wire."""
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
    """A scheme, backend or optional package that is not here."""

    code = "usage.unavailable"


class InvalidActionError(UsageError):
    """The action does not fit. Raised by an environment, it promises that nothing has changed."""

    code = "usage.invalid_action"


class WrongAgentError(UsageError):
    """Somebody acted out of turn, or somebody who must act did not."""

    code = "usage.wrong_agent"


class ResetNeededError(UsageError):
    """The environment is before its first episode or after the end of one."""

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
    """`reset` or `step` returned something that no convention gives a meaning to."""

    code = "env.bad_result"


class NotJSONableError(EnvError):
    """A value must become JSON and cannot; the message names the field."""

    code = "env.not_jsonable"


class WaitTimeoutError(EnvWeaveError):
    """The answer did not come in time. It is not lost: wait again."""

    code = "wait_timeout"
    retryable = True


class SandboxError(EnvWeaveError):
    """The sandbox could not run the code; a program that merely fails is a result."""

    code = "sandbox"


class IsolationError(SandboxError):
    """The machine cannot hold code as firmly as was asked for."""

    code = "sandbox.isolation"


class SessionEndedError(SandboxError):
    """The session is over: its code was killed and the policy was to end it, or its supervisor was lost."""

    code = "sandbox.session_ended"


class LanguageModelError(EnvWeaveError):
    """The endpoint of a language model refused the call, failed, or answered nonsense."""

    code = "model"


class ModelUnavailableError(LanguageModelError):
    """The model could not be reached, had too much to do or was too slow. The same call may work later."""

    code = "model.unavailable"
    retryable = True


class TransportError(EnvWeaveError):
    """The connection to an environment failed."""

    code = "transport"
    retryable = True


class CapacityError(TransportError):
    """The server has as many sessions as it takes. Try later."""

    code = "transport.capacity"


class SessionLostError(TransportError):
    """The session on the server is gone: it was reaped, or the server was. The episode cannot be continued."""

    code = "transport.session_lost"
    retryable = False


class UnauthorizedError(TransportError):
    """The server wants a token and did not get the right one."""

    code = "transport.unauthorized"
    retryable = False


class ProtocolError(TransportError):
    """A message that cannot be read or has no meaning. The session it came on lives."""

    code = "transport.protocol"
    retryable = False


class ProviderError(EnvWeaveError):
    """A process, container or cluster could not be started or was lost."""

    code = "provider"
    retryable = True


class ProviderUnreachableError(ProviderError):
    """The daemon or the API server does not answer. What it has started may well run."""

    code = "provider.unreachable"
