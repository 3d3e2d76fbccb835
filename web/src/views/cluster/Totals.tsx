import type { Host, Queue } from "../../api/types";

/** The cluster in one line. */
export function Totals({ hosts, queue }: { hosts: readonly Host[]; queue: Queue | undefined }) {
  const devices = sum(hosts, (host) => host.devices);
  const free = sum(hosts, (host) => (host.state === "open" && !host.unavailable ? host.free : 0));
  const used = sum(hosts, (host) => host.devices - host.free);
  return (
    <div className="totals">
      <span>
        <b>{hosts.length}</b> {hosts.length === 1 ? "host" : "hosts"}
      </span>
      <span>
        <b>
          {used} of {devices}
        </b>{" "}
        devices in use
      </span>
      <span>
        <b>{free}</b> free
      </span>
      {queue && (
        <span>
          <b>{queue.waiting.length + queue.left_out}</b> waiting
        </span>
      )}
    </div>
  );
}

function sum(hosts: readonly Host[], of: (host: Host) => number): number {
  return hosts.reduce((total, host) => total + of(host), 0);
}
