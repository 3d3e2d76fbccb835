// The cluster as the page draws it: pods with leaves with hosts, each host with its devices' users.
import type { ClusterMap, Host, Queue } from "../../api/types";

export interface HostBox {
  host: Host;
  kind: "gpu" | "core";
  /** For each device the run that has it; "": another run, whose name the reader may not see; null: free. */
  devices: (string | null)[];
}

export interface Group {
  pod: string;
  leaf: string;
  hosts: HostBox[];
}

export function layOut(
  hosts: readonly Host[],
  map: ClusterMap | undefined,
  queue: Queue | undefined,
): Group[] {
  const places = placesOf(map);
  const groups = new Map<string, Group>();
  for (const host of hosts) {
    const place = places.get(host.id);
    const leaf = place?.leaf ?? "";
    const key = `${host.pod}/${leaf}`;
    const group = groups.get(key) ?? { pod: host.pod, leaf, hosts: [] };
    group.hosts.push({ host, kind: place?.kind ?? "gpu", devices: devicesOf(host, queue) });
    groups.set(key, group);
  }
  return [...groups.values()];
}

function placesOf(map: ClusterMap | undefined) {
  const places = new Map<string, { leaf: string; kind: "gpu" | "core" }>();
  for (const pod of map?.pods ?? []) {
    for (const leaf of pod.leaves) {
      for (const host of leaf.hosts) {
        const kind = host.islands[0]?.devices[0]?.kind ?? "gpu";
        places.set(host.id, { leaf: leaf.name, kind });
      }
    }
  }
  return places;
}

function devicesOf(host: Host, queue: Queue | undefined): (string | null)[] {
  const devices: (string | null)[] = [];
  for (const id of host.runs) {
    const held = queue?.allocations.find((allocation) => allocation.run === id)?.devices ?? 1;
    for (let index = 0; index < held; index += 1) devices.push(id);
  }
  const used = host.devices - host.free;
  while (devices.length < used) devices.push("");
  devices.length = Math.min(devices.length, used);
  while (devices.length < host.devices) devices.push(null);
  return devices;
}

/** A colour for each run: that of its user. */
export function colorsOfNames(users: Map<string, string>): Map<string, number> {
  const names = [...new Set(users.values())].sort();
  return new Map([...users].map(([run, user]) => [run, names.indexOf(user) % 10]));
}

/** A colour of the palette for each run, the same as long as the set of runs is. */
export function colorsOf(groups: readonly Group[]): Map<string, number> {
  const runs = new Set<string>();
  for (const group of groups)
    for (const { devices } of group.hosts) for (const run of devices) if (run) runs.add(run);
  return new Map([...runs].sort().map((run, index) => [run, index % 10]));
}
