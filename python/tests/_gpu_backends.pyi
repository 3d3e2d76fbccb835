from typing import Any

def lone_rank(rank: int, size: int) -> Any:
    """A c10d backend: one rank of a world whose other ranks hold what it holds."""

def staged(inner: Any) -> Any:
    """A c10d backend over one for the CPU, with its ranks."""
