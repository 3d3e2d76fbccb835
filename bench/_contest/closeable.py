"""An object that must be closed, and is closed at the end of a `with` block."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Self


class Closeable(abc.ABC):
    @abc.abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
