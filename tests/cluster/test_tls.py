"""A daemon that other machines reach, and a user on one of them, each in a network of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, Cluster, Laptop

SERVER, CLIENT = "10.99.1.1", "10.99.1.2"


@contextmanager
def network() -> Iterator[int]:
    """The id of a process in a network of its own."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stderr is not None
    try:
        if holder.stdout.readline() != "ready\n":
            pytest.skip(f"needs a network of its own: {holder.stderr.read().strip()}")
        yield holder.pid
    finally:
        holder.communicate(timeout=30)  # the end of its input ends it


def within(network_of: int) -> list[str]:
    return ["nsenter", f"--target={network_of}", "--net"]


def connect(server: int, client: int) -> None:
    """A cable between the two networks."""
    for words in (
        [*within(server), "ip", "link", "add", "one", "type", "veth", "peer", "two"],
        [*within(server), "ip", "link", "set", "two", "netns", str(client)],
        [*within(server), "ip", "address", "add", f"{SERVER}/24", "dev", "one"],
        [*within(client), "ip", "address", "add", f"{CLIENT}/24", "dev", "two"],
        [*within(server), "ip", "link", "set", "one", "up"],
        [*within(client), "ip", "link", "set", "two", "up"],
    ):
        subprocess.run(words, check=True)


class Machines:
    """The daemon's machine, and that of a user."""

    def __init__(self, cluster: Cluster, laptop: Laptop) -> None:
        self.cluster = cluster
        self.laptop = laptop
        self.said = ""

    def serve(self, *words: str) -> None:
        self.said = self.cluster.ok("serve", "--hosts", "2x1", "--detach", *words)

    @property
    def address(self) -> str:
        """With the fingerprint."""
        file = json.loads((self.cluster.home / "daemon.json").read_text())
        return str(file["network_url"])

    def login(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.laptop.command("login", self.address, *words, input=self.cluster.token())


@pytest.fixture
def machines(idle: Cluster, tmp_path: Path) -> Iterator[Machines]:
    with ExitStack() as stack:
        server, client = (stack.enter_context(network()) for _ in range(2))
        connect(server, client)
        idle.within = within(server)
        laptop = Laptop(tmp_path)
        laptop.within = within(client)
        yield Machines(idle, laptop)
        if (idle.home / "daemon.json").exists():
            idle.close()


def test_a_user_of_another_machine_logs_in_by_the_printed_line_and_runs_over_tls(
    machines: Machines,
) -> None:
    machines.serve("--listen", "0.0.0.0", "--name", SERVER)
    cluster, laptop = machines.cluster, machines.laptop
    token = cluster.token()
    assert f"lockstep login {machines.address}" in machines.said and token not in machines.said
    assert machines.address.startswith(f"https://{SERVER}:") and "#sha256:" in machines.address
    # The daemon's own agents and commands.
    run = cluster.submit("-n", "2", "--", "sh", "-c", "echo rank $RANK")
    assert cluster.ended(run)["state"] == "succeeded", cluster.logs(run)
    # From the other machine.
    done = machines.login()
    assert done.returncode == 0, done.stderr
    followed = laptop.command("run", "-n", "2", "--", "sh", "-c", "echo rank $RANK", cwd="/")
    assert followed.returncode == 0, followed.stderr
    assert {"[0] rank 0", "[1] rank 1"} <= set(followed.stdout.splitlines())
    assert run in laptop.ok("ps")
    for words in (["show", run], ["logs", run], ["queue"], ["host", "ls"], ["map"], ["version"]):
        laptop.ok(*words)
    laptop.ok("host", "cordon", hosts(laptop)[1])
    assert f"from {CLIENT}" in laptop.ok("host", "ls", "--json"), "the caller as it is known"
    assert laptop.starts_no_daemon()
    assert token not in (cluster.home / "daemon.log").read_text()


def hosts(laptop: Laptop) -> list[str]:
    return [host["id"] for host in json.loads(laptop.ok("host", "ls", "--json"))["hosts"]]


def test_another_fingerprint_another_token_and_plain_http_are_refused_with_the_remedy(
    machines: Machines,
) -> None:
    machines.serve("--listen", SERVER)
    laptop = machines.laptop
    address, _, fingerprint = machines.address.partition("#sha256:")
    other = ("0" if fingerprint[0] != "0" else "1") + fingerprint[1:]
    for url, typed, reason in (
        (f"{address}#sha256:{other}", machines.cluster.token(), fingerprint),
        (address, machines.cluster.token(), "give the certificate's fingerprint"),
        (machines.address, "0" * 64, "does not accept this token"),
    ):
        refused = laptop.command("login", url, input=typed)
        assert refused.returncode != 0 and reason in refused.stderr, refused.stderr
    plain = "http" + address.removeprefix("https")
    refused = laptop.command("login", "--insecure", plain, input="x" * 64)
    assert refused.returncode != 0 and "this port speaks HTTPS" in refused.stderr, refused.stderr
    # The daemon's own authority, as a file for other programs.
    tls = machines.cluster.home / "tls"
    by_file = laptop.command(
        "login", address, "--ca-file", str(tls / "ca.pem"), input=machines.cluster.token()
    )
    assert by_file.returncode == 0, by_file.stderr
    laptop.ok("ps")
    assert {path.name: path.stat().st_mode & 0o777 for path in tls.iterdir()} == {
        "authority": 0o600,
        "server": 0o600,
        "ca.pem": 0o600,
    }


def test_a_run_goes_on_over_a_restart_and_the_fingerprint_stays(
    machines: Machines, tmp_path: Path
) -> None:
    machines.serve("--listen", SERVER, "--port", "7070")
    cluster, laptop = machines.cluster, machines.laptop
    assert machines.login().returncode == 0
    gate = tmp_path / "gate"
    script = f"while ! test -e {gate}; do sleep 0.05; done; echo done"
    run = cluster.submit("-n", "2", "--", "sh", "-c", script)
    cluster.running_ranks(run)
    before = machines.address
    cluster.ok("serve", "--stop")
    cluster.ok("serve", "--again", "--listen", SERVER, "--detach")
    assert machines.address == before
    gate.touch()
    assert cluster.ended(run)["state"] == "succeeded"
    assert len(cluster.show(run)["attempts"]) == 1
    assert run in laptop.ok("ps")


def test_a_certificate_of_the_operator_is_served(machines: Machines, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "30", "-subj", "/CN=head", "-addext", f"subjectAltName=IP:{SERVER}",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True, timeout=PATIENCE,
    )  # fmt: skip
    refused = machines.cluster.command("serve", "--listen", SERVER, "--tls-cert", str(cert))
    assert refused.returncode == 2 and "--tls-key" in refused.stderr
    machines.serve("--listen", SERVER, "--tls-cert", str(cert), "--tls-key", str(key))
    run = machines.cluster.submit("-n", "2", "--", "true")
    assert machines.cluster.ended(run)["state"] == "succeeded"
    assert machines.login().returncode == 0
    address = machines.address.partition("#")[0]
    by_authority = machines.laptop.command(
        "login", address, "--ca-file", str(cert), input=machines.cluster.token()
    )
    assert by_authority.returncode == 0, by_authority.stderr
    # Another program, by the same file.
    program = (
        "import ssl, sys, urllib.request as r;"
        "c = ssl.create_default_context(cafile=sys.argv[2]);"
        "print(r.urlopen(sys.argv[1] + '/health', context=c).status)"
    )
    answered = subprocess.run(
        [*machines.laptop.within, "python3", "-c", program, address, str(cert)],
        text=True, capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert answered.stdout.strip() == "200", answered.stderr


def test_plain_http_for_other_machines_needs_the_option(machines: Machines) -> None:
    machines.serve("--listen", SERVER, "--insecure")
    assert machines.address.startswith("http://")
    assert "lockstep login" not in machines.said
    refused = machines.login()
    assert refused.returncode == 2 and "is not encrypted" in refused.stderr
    assert machines.login("--insecure").returncode == 0
    machines.laptop.ok("ps")
