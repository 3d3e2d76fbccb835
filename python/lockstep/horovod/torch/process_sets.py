"""Process sets: some of the ranks, which have collectives of their own."""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.horovod.torch.errors import NotInitializedError


class ProcessSet:
    """Ranks of the world, in ascending order. It is usable after hvd.add_process_set(), or as one
    of hvd.init(process_sets=...)."""

    def __init__(self, ranks: Sequence[int] | None = None) -> None:
        self.ranks: list[int] | None = None if ranks is None else sorted(set(ranks))
        self.process_set_id: int | None = None
        self.has_this_rank = False  # for lockstep.horovod itself
        self._own: int | None = None  # this process's rank in the world

    def size(self) -> int:
        return len(self._known_ranks("size"))

    def rank(self) -> int:
        """This process's rank in the set; -1 outside of it."""
        ranks = self._known_ranks("rank")
        return ranks.index(self._own) if self._own in ranks else -1

    def included(self) -> bool:
        return self._own in self._known_ranks("included")

    def attach(self, number: int, ranks: list[int], own: int) -> None:
        """For lockstep.horovod itself."""
        self.process_set_id, self.ranks, self._own = number, ranks, own
        self.has_this_rank = own in ranks

    def detach(self) -> None:
        """For lockstep.horovod itself."""
        self.process_set_id = self._own = None

    def _known_ranks(self, call: str) -> list[int]:
        if self.process_set_id is None or self.ranks is None:
            if self is global_process_set:
                raise NotInitializedError(f"global_process_set.{call}()")
            raise ValueError(
                f"{self!r}.{call}(): it is not in use: pass it to hvd.add_process_set() first"
            )
        return self.ranks

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


global_process_set = ProcessSet()
