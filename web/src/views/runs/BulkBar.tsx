import { useState } from "react";
import { useAct, useAnnotate } from "../../api/actions";
import { compareMax } from "../../api/queries";
import { mayControl, useWhoAmI } from "../../api/session";
import type { Run } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { isActive } from "../../parts/StateBadge";

interface Props {
  runs: Run[];
  /** All runs that the page has are selected: what selects those that it has not read. */
  rest: { exists: boolean; reads: boolean; read: () => void } | null;
  compare: () => void;
  clear: () => void;
}

/** Actions on the selected runs. Those that the daemon would refuse are not offered. */
export function BulkBar({ runs, rest, compare, clear }: Props) {
  const who = useWhoAmI();
  const act = useAct();
  const [asked, setAsked] = useState<"" | "stop" | "tag">("");
  const mine = runs.filter((run) => mayControl(who.data, run));
  const active = mine.filter((run) => isActive(run.state));
  return (
    <div className="bulk" role="toolbar" aria-label="Selected runs">
      <strong>{runs.length.toLocaleString("en-US")} selected</strong>
      {rest?.exists && (
        <button
          type="button"
          className="button"
          disabled={rest.reads}
          title="Also those that the page has not read yet"
          onClick={rest.read}
        >
          {rest.reads ? "Reading runs" : "Select all that match"}
        </button>
      )}
      <button
        type="button"
        className="button"
        disabled={runs.length < 2 || runs.length > compareMax}
        title={runs.length > compareMax ? `A comparison has at most ${compareMax} runs` : undefined}
        onClick={compare}
      >
        Compare <kbd>c</kbd>
      </button>
      {mine.length > 0 && (
        <button type="button" className="button" onClick={() => setAsked("tag")}>
          Tag
        </button>
      )}
      {active.length > 0 && (
        <button type="button" className="button danger" onClick={() => setAsked("stop")}>
          Stop {active.length}
        </button>
      )}
      <button type="button" className="button plain" onClick={clear}>
        Clear <kbd>Esc</kbd>
      </button>
      {asked === "stop" && (
        <Dialog title="Stop runs" close={() => setAsked("")}>
          <div className="body">
            <h2>
              Stop {active.length} {active.length === 1 ? "run" : "runs"}?
            </h2>
            <p className="muted">
              Their ranks get SIGTERM, and SIGKILL after the grace period:{" "}
              {active
                .slice(0, 8)
                .map((run) => run.id)
                .join(", ")}
              {active.length > 8 && ` and ${active.length - 8} more`}.
            </p>
            <div className="dialog-actions">
              <button type="button" className="button" onClick={() => setAsked("")}>
                Cancel
              </button>
              <button
                type="button"
                className="button danger"
                onClick={() => {
                  act.mutate({ ids: active.map((run) => run.id), name: "stop" });
                  setAsked("");
                  clear();
                }}
              >
                Stop
              </button>
            </div>
          </div>
        </Dialog>
      )}
      {asked === "tag" && <TagDialog runs={mine} close={() => setAsked("")} />}
    </div>
  );
}

function TagDialog({ runs, close }: { runs: Run[]; close: () => void }) {
  const annotate = useAnnotate();
  const [tag, setTag] = useState("");
  const [key = "", ...values] = tag.split("=").map((part) => part.trim());
  const value = values.join("=");
  return (
    <Dialog title="Tag runs" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          annotate.mutate({
            ids: runs.map((run) => run.id),
            change: () => ({ tags: { [key]: value || "yes" } }),
          });
          close();
        }}
      >
        <h2>
          Tag {runs.length} {runs.length === 1 ? "run" : "runs"}
        </h2>
        <input
          className="input"
          autoFocus
          placeholder="team=speech"
          aria-label="Tag, as KEY=VALUE"
          value={tag}
          onChange={(event) => setTag(event.target.value)}
        />
        <div className="dialog-actions">
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button main" disabled={!key}>
            Set the tag
          </button>
        </div>
      </form>
    </Dialog>
  );
}
