"""The daemon that this program calls, chosen as the command `lockstep` chooses it."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROFILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


class DaemonError(RuntimeError):
    """A call that failed; the message says what to do.

    Attributes:
        code: as in answers of the API, such as "not_found", "denied" and "invalid"; "unavailable"
            if no daemon answers, "timeout" if one does not in time, "corrupt" if its answer cannot
            be read.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Daemon:
    """Where it is, and what proves this user to it."""

    url: str  # "http://127.0.0.1:7070", "https://head:7070#sha256:HEX"
    token: str
    authorities: str = ""  # certificates in PEM that an https address is trusted by
    name: str = "the daemon"  # for messages


def chosen_daemon(environment: Mapping[str, str] | None = None) -> Daemon:
    """The first of: the profile LOCKSTEP_PROFILE, the address LOCKSTEP_URL, the folder
    LOCKSTEP_HOME, the profile `default`, the user's own daemon on this machine.

    Raises:
        DaemonError: there is none, or its files cannot be read. The message names the file or the
            variable.
    """
    env = os.environ if environment is None else environment
    if name := env.get("LOCKSTEP_PROFILE"):
        return _of_profile(env, name)
    if env.get("LOCKSTEP_URL"):
        return _of_url(env)
    if not env.get("LOCKSTEP_HOME"):
        folder = _profiles(env)
        if folder is not None and (folder / "default.json").exists():
            return _of_profile(env, "default")
    return _of_home(env)


def _of_profile(env: Mapping[str, str], name: str) -> Daemon:
    folder = _profiles(env)
    if folder is None:
        raise DaemonError(
            "invalid", "neither XDG_CONFIG_HOME nor HOME is set, so there are no profiles"
        )
    if not _PROFILE_NAME.fullmatch(name):
        raise DaemonError("invalid", f"'{name}' is no name of a profile")
    path = folder / f"{name}.json"
    if not path.exists():
        raise DaemonError(
            "not_found",
            f"there is no profile '{name}'; `lockstep login --list` lists them, `lockstep login "
            f"URL {name}` makes it",
        )
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise DaemonError(
            "denied",
            f"{path} has a token and may be read by others; take it back with `chmod 600 {path}`, "
            "and have the token replaced",
        )
    profile = _read_json(path, "log in again")
    return Daemon(
        _text(profile, "url", path),
        _text(profile, "token", path),
        profile.get("authorities") or "",
        f"the daemon of the profile '{name}'",
    )


def _profiles(env: Mapping[str, str]) -> Path | None:
    if config := env.get("XDG_CONFIG_HOME"):
        return Path(config).absolute() / "lockstep" / "profiles"
    if home := env.get("HOME"):
        return Path(home).absolute() / ".config" / "lockstep" / "profiles"
    return None


def _of_url(env: Mapping[str, str]) -> Daemon:
    url = env["LOCKSTEP_URL"]
    if not env.get("LOCKSTEP_TOKEN_FILE"):
        login = _login_at(env, url)
        if login is not None:
            return login
        raise DaemonError(
            "invalid",
            "LOCKSTEP_URL is set and LOCKSTEP_TOKEN_FILE is not; set it to a file with the token "
            "of that daemon, or log in with `lockstep login`",
        )
    token = _read_variable(env, "LOCKSTEP_TOKEN_FILE").rstrip("\r\n")
    authorities = _read_variable(env, "LOCKSTEP_CA_FILE") if env.get("LOCKSTEP_CA_FILE") else ""
    return Daemon(url, token, authorities, "the daemon at LOCKSTEP_URL")


def _login_at(env: Mapping[str, str], url: str) -> Daemon | None:
    """An address without a fingerprint matches one with it."""
    folder = _profiles(env)
    if folder is None or not folder.is_dir():
        return None
    for path in sorted(folder.glob("*.json")):
        try:
            found = _of_profile(env, path.stem)
        except DaemonError:
            continue
        if url in (found.url, found.url.partition("#")[0]):
            return found
    return None


def _of_home(env: Mapping[str, str]) -> Daemon:
    """A home that machines share has a daemon.json that names the daemon's machine and folder."""
    asked = _home(env)
    path = asked / "daemon.json"
    if not path.exists():
        raise DaemonError(
            "unavailable",
            f"no daemon is running with the home {asked}; start one with `lockstep serve`, set "
            "LOCKSTEP_URL and LOCKSTEP_TOKEN_FILE, or log in to another with `lockstep login`",
        )
    there = _read_json(path, "start the daemon again with `lockstep serve`")
    if not _is_here(there):
        return _elsewhere(there, path)
    if there.get("pid") == 0:
        raise DaemonError(
            "unavailable",
            f"the daemon of the home {asked} was stopped; start it with `lockstep serve`",
        )
    local = asked if (asked / "token").exists() else Path(there.get("folder") or asked)
    token = _read_text(local / "token", "set LOCKSTEP_URL and LOCKSTEP_TOKEN_FILE to call a daemon")
    name = f"the daemon (process {there.get('pid')})"
    return Daemon(_text(there, "url", path), token.rstrip("\n"), "", name)


def _home(env: Mapping[str, str]) -> Path:
    if chosen := env.get("LOCKSTEP_HOME"):
        return Path(chosen).absolute()
    if state := env.get("XDG_STATE_HOME"):
        return Path(state).absolute() / "lockstep"
    if home := env.get("HOME"):
        return Path(home).absolute() / ".local" / "state" / "lockstep"
    raise DaemonError(
        "invalid", "neither LOCKSTEP_HOME nor HOME is set; set LOCKSTEP_HOME to a folder"
    )


def _is_here(there: Mapping[str, Any]) -> bool:
    if not there.get("host"):
        return True
    is_this_machine = there["host"] == socket.gethostname() and there.get("machine") == _line_of(
        "/etc/machine-id"
    )
    # Containers of this machine see its folder under different host names.
    return is_this_machine or there.get("boot") == _line_of("/proc/sys/kernel/random/boot_id")


def _elsewhere(there: Mapping[str, Any], path: Path) -> Daemon:
    if there.get("network_url") and there.get("token") and there.get("pid") != 0:
        return Daemon(there["network_url"], there["token"], "", f"the daemon on {there['host']}")
    state = "was stopped" if there.get("pid") == 0 else "runs"
    raise DaemonError(
        "unavailable",
        f"the daemon of this home {state} on {there['host']} and cannot be called from here; use "
        f"Python there, or set LOCKSTEP_HOME to a folder of this machine. If that machine is gone "
        f"for good, remove {path}",
    )


def _line_of(path: str) -> str:
    try:
        return Path(path).read_text().partition("\n")[0]
    except OSError:
        return ""


def _read_variable(env: Mapping[str, str], name: str) -> str:
    return _read_text(Path(env[name]), f"{name} must name a file that you can read")


def _read_text(path: Path, remedy: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DaemonError("unavailable", f"{path}: {why}; {remedy}") from None


def _read_json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        read = json.loads(_read_text(path, remedy))
    except ValueError as error:
        raise DaemonError("corrupt", f"{path} is damaged ({error}); {remedy}") from None
    if not isinstance(read, dict):
        raise DaemonError("corrupt", f"{path} is damaged (it is no object); {remedy}")
    return read


def _text(record: Mapping[str, Any], field: str, path: Path) -> str:
    value = record.get(field)
    if not isinstance(value, str) or not value:
        raise DaemonError("corrupt", f"{path} is damaged (it has no {field})")
    return value
