"""What providers of images share: options that pydantic checks, and the order of a start."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from envweave.core.schema import PositiveInt, PositiveNumber, VariableName, adapter, explain
from envweave.core.suggest import refuse_unknown
from envweave.errors import UsageError
from envweave.providers.base import READY_TIMEOUT, Provider


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """A server in a container. Messages do not show the values of fields with `repr=False`."""

    __pydantic_config__: ClassVar[Any] = {"strict": True, "allow_inf_nan": False, "revalidate_instances": "always"}
    subject: ClassVar[str]
    """Whose options they are, for messages."""

    image: str = ""
    command: Sequence[str] | None = None
    """Replaces that of the image, as in `docker run`: the entry point of the image stays."""
    env_vars: Mapping[VariableName, Any] = field(default_factory=dict, repr=False)
    port: PositiveInt = 8000
    """Port that the server listens on inside."""
    memory: str | int | None = None
    """Bytes, or `512m`, `2g`; a container that uses more is killed."""
    cpus: PositiveNumber | None = None
    user: str | int | None = None
    read_only: bool = False
    """Only `tmpfs` and volumes are writable."""
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    """From a path inside to the options of a file system in memory, e.g. `{"/tmp": "size=64m"}`."""
    ready_timeout: float = READY_TIMEOUT
    """Seconds until a client gives up waiting for the server."""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def chosen(cls, given: Mapping[str, Any], base: Self | None = None) -> Self:
        """Return `base` with the given options. None means an empty dict. Raises `UsageError` for an unknown name."""
        known = {each.name: each.default_factory for each in fields(cls)}
        refuse_unknown(given, list(known), f"{cls.subject} has no option", "options")
        cleaned = {name: {} if value is None and known[name] is dict else value for name, value in given.items()}
        return cls(**cleaned) if base is None else replace(base, **cleaned)

    def check(self) -> None:
        """Raise `UsageError` for values of a wrong type or range."""
        if not self.image:
            raise UsageError("no image is named", "e.g. 'echo-env:latest'")
        own_type: Any = type(self)
        hidden = [each.name for each in fields(self) if not each.repr]
        try:
            adapter(own_type).validate_python(self)
        except ValueError as error:
            raise UsageError(f"invalid option of {self.subject}: {explain(error, hidden)}") from None


class ImageProvider(Provider):
    """Options are given when it is created, replaced by those of `start`, and then checked."""

    options_type: ClassVar[type[ImageOptions]]
    options: ImageOptions

    def __init__(self, image: str = "", **options: Any) -> None:
        self.options = self.options_type.chosen({"image": image, **options})
        self._finalizer: weakref.finalize[..., Any] | None = None

    def start(self, image: str = "", **options: Any) -> str:
        if self.name:
            raise UsageError(f"{self.name} has started already", "stop() it first, or use another provider")
        given = {"image": image, **options} if image else options
        self.options = self.options_type.chosen(given, self.options)
        self.options.check()
        try:
            self.url = self._start()
        except BaseException:
            self.stop()
            raise
        return self.url

    @abstractmethod
    def _start(self) -> str:
        """Start with `options` and return the URL. If it raises, `stop` is called."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the container or workload; empty if there is none."""

    @property
    def ready_timeout(self) -> float:  # type: ignore[override]
        return self.options.ready_timeout

    @property
    def env_vars(self) -> Mapping[str, str]:
        return self.options.env_vars
