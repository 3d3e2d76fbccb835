"""wandb.config and wandb.summary: mappings that are written to files when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

Changed = Callable[[], None]


class Error(Exception):
    """As wandb.errors.Error."""


class UsageError(Error):
    """As wandb.errors.UsageError: a call in the wrong place, or with wrong arguments."""


class CommError(Error):
    """As wandb.errors.CommError. Nothing here raises it."""


class ConfigError(UsageError):
    """A value of the configuration is changed without allow_val_change=True."""


class _Values(MutableMapping[str, Any]):
    """Also by attribute, as in ``config.lr``."""

    def __init__(self, changed: Changed) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_changed", changed)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value
        self._changed()

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        self._changed()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no value '{name}'") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        return repr(self._values)

    def as_dict(self) -> dict[str, Any]:
        return dict(self._values)


class Config(_Values):
    """The run's configuration. A value that is set stays, unless its change is allowed."""

    def __setitem__(self, name: str, value: Any) -> None:
        self._set({name: value}, allow_val_change=False)

    def update(  # type: ignore[override]
        self, d: Any = (), allow_val_change: bool | None = None, **named: Any
    ) -> None:
        """
        Args:
            d: a mapping, or an object with attributes such as argparse.Namespace.
            allow_val_change: values that are set may change.

        Raises:
            ConfigError: one would change and must not. Then nothing has changed.
            TypeError: d is neither.
        """
        self._set(as_mapping(d) | named, bool(allow_val_change))

    def setdefaults(self, d: Any) -> None:
        """Sets those that are not set."""
        self._set({k: v for k, v in as_mapping(d).items() if k not in self}, False)

    def _set(self, values: Mapping[str, Any], allow_val_change: bool) -> None:
        for name, value in values.items():
            if not allow_val_change and name in self._values and _differ(self._values[name], value):
                raise ConfigError(
                    f"config '{name}' is {self._values[name]!r} and would become {value!r}; write "
                    f"config.update({{'{name}': ...}}, allow_val_change=True)"
                )
        self._values.update(values)
        self._changed()


class Summary(_Values):
    """The last value of each metric, and what the program sets itself."""

    def update(self, d: Any = (), **named: Any) -> None:  # type: ignore[override]
        self._values.update(as_mapping(d) | named)
        self._changed()


def as_mapping(values: Any) -> dict[str, Any]:
    if values is None or values == ():
        return {}
    if isinstance(values, Mapping):
        return dict(values)
    if hasattr(values, "__dict__") and not callable(values):  # argparse.Namespace, a data class
        return dict(vars(values))
    raise TypeError(f"expected a mapping or an argparse.Namespace, got {values!r}")


def _differ(before: Any, after: Any) -> bool:
    try:
        return bool(before != after)
    except (ValueError, RuntimeError):  # arrays and tensors
        return repr(before) != repr(after)
