"""The errors of lockstep.horovod, under Horovod's names where it has them."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective failed, because a rank was lost or has left. ``hvd.elastic.run`` recovers."""


class HostsUpdatedInterrupt(RuntimeError):
    """Ranks were added or will be removed; the committed state is still valid."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the ranks of the run have changed")
        self.skip_sync = skip_sync


class InvalidRequestError(RuntimeError, ValueError):
    """A call that cannot succeed: the program must be changed."""


class NotInitializedError(ValueError):
    """A call before hvd.init(), or after hvd.shutdown()."""

    def __init__(self, call: str) -> None:
        super().__init__(f"hvd.{call}: Horovod has not been initialized: call hvd.init() first")
