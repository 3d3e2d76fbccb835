from datetime import timedelta
from typing import Any

def create_backend(store: Any, rank: int, size: int, timeout: timedelta, group: str) -> Any:
    """Connects this rank to the others; a torch.distributed C++ Backend."""

def shutdown_all() -> None:
    """Ends every backend of this process and joins its threads."""
