"""Horovod's variables of the environment that have a meaning here."""

from __future__ import annotations

import os
from dataclasses import dataclass


def _number(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name}={text}: set it to a number, such as {default:g}") from None


@dataclass(frozen=True)
class Settings:
    """Read at each hvd.init()."""

    cycle: float  # seconds in which requests are collected before the ranks exchange them
    fusion_bytes: int  # small tensors are reduced together up to this size
    cache_capacity: int  # names
    stall_seconds: float  # 0: a name that some ranks lack is not reported
    stall_shutdown_seconds: float  # 0: never
    timeline: str  # a file; empty: none

    @staticmethod
    def from_environment() -> Settings:
        unchecked = os.environ.get("HOROVOD_STALL_CHECK_DISABLE", "") not in ("", "0")
        return Settings(
            cycle=_number("HOROVOD_CYCLE_TIME", 1.0) / 1000,
            fusion_bytes=int(_number("HOROVOD_FUSION_THRESHOLD", 128 << 20)),
            cache_capacity=int(_number("HOROVOD_CACHE_CAPACITY", 1024)),
            stall_seconds=0 if unchecked else _number("HOROVOD_STALL_CHECK_TIME_SECONDS", 60),
            stall_shutdown_seconds=_number("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0),
            timeline=os.environ.get("HOROVOD_TIMELINE", ""),
        )
