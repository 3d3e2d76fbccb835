"""nothing_server.py PORT: answers each request at once, as the floor of what a client can reach."""

from __future__ import annotations

import json
import socket
import sys
import threading

INFO = {"run_id": "r", "run_uuid": "r", "experiment_id": "0", "status": "RUNNING"}
INFO |= {"lifecycle_stage": "active", "artifact_uri": "/tmp", "start_time": "1"}
BODY = json.dumps({"run": {"info": INFO, "data": {}, "inputs": {}}, "run_info": INFO}).encode()
ANSWER = (
    f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
).encode() + BODY


def serve(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rb") as requests:
        while requests.readline():
            size = 0
            while (line := requests.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    size = int(value)
            requests.read(size)
            connection.sendall(ANSWER)


def main() -> None:
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
