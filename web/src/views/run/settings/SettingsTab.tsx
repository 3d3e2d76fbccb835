import type { Run } from "../../../api/types";
import { CommandHint } from "../../../parts/CommandHint";
import { settingsOf } from "../../../text/settings";
import { joinWords } from "../../../text/words";
import { Card, Pairs } from "./cards";
import { specRows } from "./specRows";

/** What was submitted: the command, its settings and its requests. */
export function SettingsTab({ run }: { run: Run }) {
  const settings = Object.entries(settingsOf(run.spec.command));
  const { spec } = run;
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
      <Card title="Requests">
        <Pairs rows={specRows(run)} />
      </Card>
    </div>
  );
}
