from datetime import timedelta
from typing import Any

def create_backend(store: Any, rank: int, size: int, timeout: timedelta, group: str) -> Any:
    """Connects this rank to the others; a torch.distributed C++ Backend."""

def set_label(label: bytes) -> bytes:
    """Makes it this thread's flight label, cut to 24 bytes; returns what it was before."""

def shutdown_all() -> None:
    """Ends every backend of this process and joins its threads."""
