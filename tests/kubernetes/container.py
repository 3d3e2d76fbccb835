"""A container as a process of this machine: its words, variables and volumes.

There is no mount namespace, which would need root: a volume is a folder, and each mount path in the
words, the variables and the files of Secrets is replaced by that folder. There is no DNS of the
cluster: a variable that is the name of a Pod in the Pod's own subdomain becomes the address of this
machine. An image is a name and nothing else, but for the program of Lockstep in the agent's; those
that begin with "missing" cannot be pulled.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kubernetes.api import Api, Object

from tests.conftest import PROGRAM

NEVER_PULLED = "missing"
FILES_OF_IMAGES = {"/usr/bin/lockstep": str(PROGRAM)}
MODE = 0o644  # of the files of Secrets and ConfigMaps, if the volume has no defaultMode


class CannotStart(Exception):
    """A container cannot be started: the reason, as the kubelet words it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def expand(text: str, variables: Mapping[str, str]) -> str:
    """$(NAME) of a known variable is its value, $$ is $, all else stays."""
    return re.sub(
        r"\$(?:\$|\(([^()$]+)\))",
        lambda found: "$" if found[0] == "$$" else variables.get(found[1], found[0]),
        text,
    )


def field_of(pod: Object, path: str) -> str:
    if found := re.fullmatch(r"metadata\.(annotations|labels)\['(.+)'\]", path):
        return str(pod["metadata"].get(found[1], {}).get(found[2], ""))
    if path == "status.podIP":
        return "127.0.0.1"
    value: Any = pod
    for name in path.split("."):
        value = value.get(name, "")
    return str(value)


class Volumes:
    """The volumes of a Pod as folders."""

    def __init__(self, api: Api, pod: Object, folder: Path) -> None:
        self.api = api
        self.namespace = pod["metadata"]["namespace"]
        self.folders = {
            volume["name"]: self.make(volume, folder / volume["name"])
            for volume in pod["spec"].get("volumes", [])
        }
        group = pod["spec"].get("securityContext", {}).get("fsGroup")
        for volume in pod["spec"].get("volumes", []):
            if "secret" in volume:
                self.replace_in_files(self.folders[volume["name"]], pod["spec"]["containers"][0])
            if group is not None and "hostPath" not in volume:
                give_to_group(self.folders[volume["name"]], group)

    def replace_in_files(self, folder: Path, container: Object) -> None:
        for file in folder.iterdir():
            text = file.read_bytes()
            file.write_bytes(self.replace_mounts(text.decode(), container).encode())

    def make(self, volume: Object, folder: Path) -> Path:
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        if claim := volume.get("persistentVolumeClaim"):
            return self.folder_of_claim(claim["claimName"])
        folder.mkdir(parents=True, exist_ok=True)
        if secret := volume.get("secret"):
            found = self.api.get("secrets", self.namespace, secret["secretName"])
            data = {key: base64.b64decode(text) for key, text in found.get("data", {}).items()}
            write_files(folder, data, secret.get("defaultMode", MODE))
        elif settings := volume.get("configMap"):
            found = self.api.get("configmaps", self.namespace, settings["name"])
            data = {key: text.encode() for key, text in found.get("data", {}).items()}
            write_files(folder, data, settings.get("defaultMode", MODE))
        elif "emptyDir" not in volume:
            raise CannotStart("CreateContainerConfigError", f"no such kind of volume: {volume}")
        return folder

    def folder_of_claim(self, name: str) -> Path:
        """The kube-scheduler places no Pod whose claim is not bound."""
        claim = self.api.get("persistentvolumeclaims", self.namespace, name)
        volume = self.api.get("persistentvolumes", "", claim["spec"]["volumeName"])
        return Path(volume["spec"]["hostPath"]["path"])

    def replace_mounts(self, text: str, container: Object) -> str:
        for mount in container.get("volumeMounts", []):
            place = re.escape(mount["mountPath"])
            folder = str(self.folders[mount["name"]])
            text = re.sub(rf"(?<![\w./-]){place}(?![\w.-])", lambda _, to=folder: to, text)
        return text


def write_files(folder: Path, data: Mapping[str, bytes], mode: int) -> None:
    for name, content in data.items():
        with open(os.open(folder / name, os.O_CREAT | os.O_WRONLY, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)


def give_to_group(folder: Path, group: int) -> None:
    """As a kubelet does for fsGroup: the group reads the files, and writes to the folder."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, -1, group)
        path.chmod(path.stat().st_mode | (0o2770 if path.is_dir() else 0o440))


class Container:
    def __init__(self, pod: Object, spec: Object, volumes: Volumes, log: Path) -> None:
        self.pod = pod
        self.spec = spec
        self.volumes = volumes
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [*self.spec.get("command", []), *self.spec.get("args", [])]
        env = self.variables()
        words = [self.volumes.replace_mounts(expand(word, env), self.spec) for word in words]
        words = [FILES_OF_IMAGES.get(word, word) for word in words]
        if not words:
            raise CannotStart("StartError", "this kubelet has no images: name a command")
        try:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    words,
                    env={"PATH": os.environ["PATH"], **env},
                    cwd=self.volumes.replace_mounts(self.spec.get("workingDir", "/"), self.spec),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    **self.user(),
                )
        except OSError as error:
            raise CannotStart("StartError", str(error)) from error

    def user(self) -> dict[str, Any]:
        """The words of Popen for the user of the Pod; without one that of this process."""
        context = self.pod["spec"].get("securityContext", {})
        if "runAsUser" not in context:
            return {}
        groups = {context["runAsGroup"], context.get("fsGroup", context["runAsGroup"])}
        return {
            "user": context["runAsUser"],
            "group": context["runAsGroup"],
            "extra_groups": sorted(groups),
        }

    def variables(self) -> dict[str, str]:
        env: dict[str, str] = {}
        for entry in self.spec.get("env", []):
            if "valueFrom" in entry:
                env[entry["name"]] = self.value_from(entry["valueFrom"])
            else:
                value = self.resolve(expand(entry.get("value", ""), env))
                env[entry["name"]] = self.volumes.replace_mounts(value, self.spec)
        return env

    def resolve(self, value: str) -> str:
        host, _, subdomain = value.partition(".")
        is_pod = host and subdomain and subdomain == self.pod["spec"].get("subdomain")
        return "127.0.0.1" if is_pod else value

    def value_from(self, source: Object) -> str:
        if field := source.get("fieldRef"):
            return field_of(self.pod, field["fieldPath"])
        api, namespace = self.volumes.api, self.pod["metadata"]["namespace"]
        if key := source.get("secretKeyRef"):
            data = api.get("secrets", namespace, key["name"])["data"]
            return base64.b64decode(data[key["key"]]).decode()
        key = source["configMapKeyRef"]
        return str(api.get("configmaps", namespace, key["name"])["data"][key["key"]])

    def exit_code(self) -> int | None:
        """As a container runtime tells it: 128 and the number of the signal."""
        code = self.process.poll() if self.process else None
        return 128 - code if code is not None and code < 0 else code

    def signal(self, number: signal.Signals) -> None:
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """With all that it has started; waits for its own end."""
        self.signal(signal.SIGKILL)
        if self.process:
            self.process.wait()
