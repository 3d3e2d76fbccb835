import type { ReactNode } from "react";
import type { Run } from "../../../api/types";
import { CommandHint } from "../../../parts/CommandHint";
import { settingsOf } from "../../../text/settings";
import { joinWords } from "../../../text/words";
import { specRows } from "./specRows";
import "./settings.css";

/** Everything that was submitted: the command, its settings, the code, requests and environment. */
export function SettingsTab({ run }: { run: Run }) {
  const settings = Object.entries(settingsOf(run.spec.command));
  const { origin, spec } = run;
  return (
    <div className="view settings-grid">
      <Card title="Command" wide action={<CommandHint command={`lockstep fork ${run.id}`} />}>
        <pre className="command-text">{joinWords(spec.command)}</pre>
      </Card>
      {settings.length > 0 && (
        <Card title="Settings">
          <Pairs rows={settings} />
        </Card>
      )}
      <Card title="Code">
        <Pairs
          rows={[
            ["commit", origin.git_commit || "no git repository"],
            ...(origin.git_commit
              ? [["uncommitted changes", origin.git_dirty ? "yes" : "no"] as const]
              : []),
            ["folder", spec.working_folder],
            ...(spec.upload ? [["upload", spec.upload] as const] : []),
            ...(origin.forked_from ? [["forked from", origin.forked_from] as const] : []),
          ]}
        />
      </Card>
      <Card title="Requests">
        <Pairs rows={specRows(run)} />
      </Card>
      <Card title="Environment">
        {Object.keys(spec.env).length > 0 ? (
          <Pairs
            rows={Object.keys(spec.env).map((name) => [name, `••• ${run.env_digests[name] ?? ""}`])}
          />
        ) : (
          <p className="muted card-text">No variables.</p>
        )}
        <p className="faint card-text">
          Values are hidden. Equal values have equal digests, also between runs.
        </p>
      </Card>
    </div>
  );
}

function Card(props: { title: string; wide?: boolean; action?: ReactNode; children: ReactNode }) {
  return (
    <section className={`card ${props.wide ? "wide" : ""}`}>
      <header>
        <h2>{props.title}</h2>
        <span className="grow" />
        {props.action}
      </header>
      {props.children}
    </section>
  );
}

function Pairs({ rows }: { rows: readonly (readonly [string, string])[] }) {
  return (
    <table className="plain pairs">
      <tbody>
        {rows.map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              <code>{value}</code>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
