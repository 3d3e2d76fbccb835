"""Asks NVML, the driver's library, about this machine's cards. Without it there are none."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
SUCCESS = 0
LINKS_MAX = 18


@dataclass
class Card:
    name: str
    uuid: str
    pci: str  # "0000:01:00"
    memory: int  # bytes
    mig: bool
    links: list[str] = field(default_factory=list)  # PCI addresses at the other ends of NVLinks


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _PciInfo(ctypes.Structure):
    _fields_ = (
        ("legacy_address", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subsystem_id", ctypes.c_uint),
        ("address", ctypes.c_char * 32),
    )

    def text(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}"


def is_there() -> bool:
    return _open() is not None


def cards() -> list[Card]:
    """In NVML's order, which is that of PCI addresses."""
    library = _open()
    if library is None:
        return []
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != SUCCESS:
        return []
    return [_card(library, index) for index in range(count.value)]


def driver() -> str:
    library = _open()
    return _text(library.nvmlSystemGetDriverVersion) if library is not None else ""


def linked_islands(of: list[Card]) -> list[set[int]]:
    """The cards, by number, that NVLinks join, directly or through switches."""
    islands: list[tuple[set[int], set[str]]] = []
    for number, card in enumerate(of):
        members, ends = {number}, {card.pci, *card.links}
        apart = []
        for island in islands:
            if island[1] & ends:
                members |= island[0]
                ends |= island[1]
            else:
                apart.append(island)
        islands = [*apart, (members, ends)]
    return [members for members, _ in islands]


def _open() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY)
        return library if library.nvmlInit_v2() == SUCCESS else None
    except (OSError, AttributeError):
        return None


def _card(library: Any, index: int) -> Card:
    handle = ctypes.c_void_p()
    library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    memory, pci = _Memory(), _PciInfo()
    library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    library.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(pci))
    mig, pending = ctypes.c_uint(), ctypes.c_uint()
    library.nvmlDeviceGetMigMode(handle, ctypes.byref(mig), ctypes.byref(pending))
    return Card(
        name=_text(library.nvmlDeviceGetName, handle),
        uuid=_text(library.nvmlDeviceGetUUID, handle),
        pci=pci.text(),
        memory=memory.total,
        mig=mig.value == 1,
        links=_links(library, handle),
    )


def _links(library: Any, handle: Any) -> list[str]:
    ends = []
    for link in range(LINKS_MAX):
        active, end = ctypes.c_uint(), _PciInfo()
        state = library.nvmlDeviceGetNvLinkState(handle, link, ctypes.byref(active))
        if state != SUCCESS or active.value != 1:
            continue
        if library.nvmlDeviceGetNvLinkRemotePciInfo_v2(handle, link, ctypes.byref(end)) == SUCCESS:
            ends.append(end.text())
    return ends


def _text(function: Callable[..., int], *arguments: Any) -> str:
    words = ctypes.create_string_buffer(96)
    if function(*arguments, words, ctypes.c_uint(len(words))) != SUCCESS:
        return ""
    return words.value.decode(errors="replace")
