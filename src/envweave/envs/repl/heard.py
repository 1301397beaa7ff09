"""What language models have said to the code of an episode: kept, so that a quotation is not taken for an answer."""

from __future__ import annotations

import threading
from collections import deque

MOST = 1 << 23
"""Characters that are kept, the last ones."""


class Heard:
    """Texts, from any thread; the oldest go when there are too many."""

    def __init__(self, texts: tuple[str, ...] = ()) -> None:
        self._texts: deque[str] = deque(texts)
        self._size = sum(map(len, texts))
        self._lock = threading.Lock()

    def add(self, text: str) -> str:
        """Gives the text back."""
        with self._lock:
            self._texts.append(text)
            self._size += len(text)
            while self._size > MOST and len(self._texts) > 1:
                self._size -= len(self._texts.popleft())
        return text

    def texts(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._texts)
