import { useState } from "react";
import { useHosts, useMap, useQueue } from "../../api/queries";
import { useWhoAmI } from "../../api/session";
import { useViewCommand } from "../../app/command";
import { useViewTitle } from "../../app/title";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import "./cluster.css";
import { HostMap } from "./HostMap";
import { JoinDialog } from "./JoinDialog";
import { QueueTable } from "./QueueTable";
import { Totals } from "./Totals";
import { Troubles } from "./Troubles";

/** The hosts with their devices, what is wrong with them, and the queue. */
export function ClusterView() {
  const hosts = useHosts();
  const queue = useQueue();
  const map = useMap();
  const who = useWhoAmI();
  const [joining, setJoining] = useState(false);
  const mayManage = who.data?.admin === true;
  useViewTitle("Cluster");
  useViewCommand("lockstep host ls");
  const error = hosts.error ?? queue.error;
  const list = hosts.data?.hosts ?? [];
  return (
    <div className="view stack">
      <div className="view-head">
        <h1>Cluster</h1>
        {hosts.data && <Totals hosts={list} queue={queue.data} />}
        <span className="grow" />
        {mayManage && (
          <button type="button" className="button" onClick={() => setJoining(true)}>
            Add a host
          </button>
        )}
      </div>
      {error && <ErrorBox error={error} retry={() => void hosts.refetch()} />}
      <Troubles hosts={list} problems={queue.data?.problems ?? []} />
      {hosts.isSuccess && list.length === 0 ? (
        <Empty title="The cluster has no host" command="lockstep host add USER@MACHINE">
          Set up a machine over SSH, or start the daemon with --hosts 2x2 to try it on this machine.
        </Empty>
      ) : (
        <HostMap hosts={list} map={map.data} queue={queue.data} mayManage={mayManage} />
      )}
      {queue.data && <QueueTable queue={queue.data} />}
      {joining && <JoinDialog close={() => setJoining(false)} />}
    </div>
  );
}
