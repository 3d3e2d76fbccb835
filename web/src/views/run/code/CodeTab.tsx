import type { Run, Spec } from "../../../api/types";
import { Link, runPath } from "../../../app/router";
import { CommandHint } from "../../../parts/CommandHint";
import { Card, Pairs } from "../settings/cards";

type Row = readonly [string, string];

/** Where the run came from and in which software it ran. */
export function CodeTab({ run }: { run: Run }) {
  const { origin, spec } = run;
  const variables = Object.keys(spec.env);
  return (
    <div className="view settings-grid">
      <Card title="Code">
        <Pairs rows={codeRows(run)} />
        {origin.git_commit && (
          <p className="card-text">
            <CommandHint command={checkout(run)} boxed />
          </p>
        )}
        {origin.git_dirty && (
          <p className="faint card-text">
            The folder had changes that are in no commit, so the commit alone does not repeat the
            run.
          </p>
        )}
      </Card>
      <Card title="Software">
        <Pairs rows={softwareRows(spec)} />
      </Card>
      <Card title="Variables">
        {variables.length > 0 ? (
          <Pairs rows={variables.map((name) => [name, `••• ${run.env_digests[name] ?? ""}`])} />
        ) : (
          <p className="muted card-text">No variables.</p>
        )}
        <p className="faint card-text">
          Values are hidden. Equal values have equal digests, also between runs.
        </p>
      </Card>
      <Secrets secrets={spec.secrets ?? {}} />
      <Card title="Hosts of the newest attempt">
        <Hosts run={run} />
      </Card>
      {origin.forked_from && (
        <Card title="Forked from">
          <p className="card-text">
            <Link className="link" href={runPath(origin.forked_from)}>
              {origin.forked_from}
            </Link>{" "}
            <Link className="button" href={`/compare?runs=${origin.forked_from},${run.id}`}>
              Compare with it
            </Link>
          </p>
        </Card>
      )}
    </div>
  );
}

function codeRows({ origin, spec }: Run): Row[] {
  const rows: Row[] = [["commit", origin.git_commit || "no git repository"]];
  if (origin.git_commit) rows.push(["uncommitted changes", origin.git_dirty ? "yes" : "no"]);
  rows.push(["folder", spec.working_folder]);
  if (spec.upload) rows.push(["upload", spec.upload]);
  return rows;
}

function checkout({ origin, spec }: Run): string {
  return `git -C ${spec.working_folder} checkout ${origin.git_commit}`;
}

/** At most one of venv, conda, modules and image. */
function softwareRows(spec: Spec): Row[] {
  const rows: Row[] = [];
  if (spec.venv) rows.push(["venv", spec.venv]);
  if (spec.conda) rows.push(["conda", spec.conda]);
  if (spec.module?.length) rows.push(["modules", spec.module.join(", ")]);
  if (spec.image) rows.push(["image", spec.image]);
  if (spec.runtime) rows.push(["runtime", spec.runtime]);
  if (spec.mounts?.length) rows.push(["mounts", spec.mounts.join(", ")]);
  if (rows.length === 0) rows.push(["environment", "that of the hosts"]);
  return rows;
}

function Secrets({ secrets }: { secrets: Record<string, string> }) {
  const rows = Object.entries(secrets);
  if (rows.length === 0) return null;
  return (
    <Card title="Secrets">
      <Pairs rows={rows.map(([variable, secret]) => [variable, `secret ${secret}`])} />
    </Card>
  );
}

function Hosts({ run }: { run: Run }) {
  const nodes = run.attempts.at(-1)?.nodes ?? [];
  if (nodes.length === 0) return <p className="muted card-text">No attempt yet.</p>;
  return (
    <>
      <Pairs
        rows={nodes
          .slice(0, 64)
          .map(({ index, host, ranks }) => [
            `node ${index}`,
            `${host}, ${ranksText(ranks.length)}`,
          ])}
      />
      {nodes.length > 64 && <p className="muted card-text">and {nodes.length - 64} more</p>}
      <p className="card-text">
        <Link className="button" href={`/cluster?run=${run.id}`}>
          Show on the cluster
        </Link>
      </p>
    </>
  );
}

function ranksText(count: number): string {
  return count === 1 ? "1 rank" : `${count} ranks`;
}
