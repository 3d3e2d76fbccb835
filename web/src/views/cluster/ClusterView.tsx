import { useHosts, useMap, useQueue } from "../../api/queries";
import { useViewCommand } from "../../app/command";
import { useViewTitle } from "../../app/title";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import "./cluster.css";
import { HostMap } from "./HostMap";
import { QueueTable } from "./QueueTable";
import { Totals } from "./Totals";
import { Troubles } from "./Troubles";

/** The hosts with their devices, what is wrong with them, and the queue. */
export function ClusterView() {
  const hosts = useHosts();
  const queue = useQueue();
  const map = useMap();
  useViewTitle("Cluster");
  useViewCommand("lockstep host ls");
  const error = hosts.error ?? queue.error;
  const list = hosts.data?.hosts ?? [];
  return (
    <div className="view stack">
      <div className="view-head">
        <h1>Cluster</h1>
        {hosts.data && <Totals hosts={list} queue={queue.data} />}
      </div>
      {error && <ErrorBox error={error} retry={() => void hosts.refetch()} />}
      <Troubles hosts={list} problems={queue.data?.problems ?? []} />
      {hosts.isSuccess && list.length === 0 ? (
        <Empty title="The cluster has no host" command="lockstep host add USER@MACHINE">
          Set up a machine over SSH, or start the daemon with --hosts 2x2 to try it on this machine.
        </Empty>
      ) : (
        <HostMap hosts={list} map={map.data} queue={queue.data} />
      )}
      {queue.data && <QueueTable queue={queue.data} />}
    </div>
  );
}
