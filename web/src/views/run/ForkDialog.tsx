import { useState } from "react";
import { post } from "../../api/client";
import { splitId } from "../../api/queries";
import { requestId } from "../../api/requestId";
import type { Run } from "../../api/types";
import { shellWord } from "../../app/command";
import { navigate, runPath } from "../../app/router";
import { CommandHint } from "../../parts/CommandHint";
import { Dialog } from "../../parts/Dialog";
import { ErrorBox } from "../../parts/ErrorBox";
import { joinWords, splitWords } from "../../text/words";

/** Submits the run's specification again, with another command or name. */
export function ForkDialog({ run, close }: { run: Run; close: () => void }) {
  const [command, setCommand] = useState(joinWords(run.spec.command));
  const [name, setName] = useState(run.name);
  const [error, setError] = useState<unknown>(null);
  const words = splitWords(command);
  async function submit() {
    // A fork does not take over the folder of checkpoints, nor the conditions of the other start.
    const spec = {
      ...run.spec,
      name,
      command: words ?? [],
      checkpoint_folder: "",
      after: [],
      not_before: null,
    };
    try {
      const made = await post(
        "/api/v1/runs/{project}/{number}/fork",
        { spec, request_id: requestId() },
        { path: splitId(run.id) },
      );
      close();
      navigate(runPath(made.id));
    } catch (failure) {
      setError(failure);
    }
  }
  return (
    <Dialog title="Fork the run" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <h2>Run {run.id} again, with changes</h2>
        <label className="field">
          Name
          <input className="input" value={name} onChange={(event) => setName(event.target.value)} />
        </label>
        <label className="field">
          Command
          <textarea
            className="input mono"
            rows={5}
            spellCheck={false}
            value={command}
            onChange={(event) => setCommand(event.target.value)}
          />
        </label>
        {!words && <p className="query-problem">A quote in the command has no end.</p>}
        {error !== null && <ErrorBox error={error} />}
        <div className="dialog-actions">
          <CommandHint
            command={`lockstep fork ${run.id}${name === run.name ? "" : ` --name ${shellWord(name)}`}`}
          />
          <span className="grow" />
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button main" disabled={!words?.length}>
            Submit
          </button>
        </div>
      </form>
    </Dialog>
  );
}
