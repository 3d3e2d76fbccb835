import { useState } from "react";
import { useAnnotate } from "../../api/actions";
import { mayControl, useWhoAmI } from "../../api/session";
import type { Run } from "../../api/types";
import { Dialog } from "../../parts/Dialog";

/** The tags and the note of a run, which may change at any time. */
export function RunTags({ run }: { run: Run }) {
  const who = useWhoAmI();
  const [open, setOpen] = useState(false);
  const tags = Object.entries(run.tags);
  const may = mayControl(who.data, run);
  if (tags.length === 0 && !run.note && !may) return null;
  return (
    <div className="tags-fact">
      <dt>Tags and note</dt>
      <dd className="row">
        {tags.map(([key, value]) => (
          <span className="tag" key={key}>
            {value ? `${key}=${value}` : key}
          </span>
        ))}
        {run.note && (
          <span className="clip run-note" title={run.note}>
            {run.note}
          </span>
        )}
        {may && (
          <button type="button" className="command" onClick={() => setOpen(true)}>
            {tags.length === 0 && !run.note ? "Add" : "Edit"}
          </button>
        )}
      </dd>
      {open && <TagsDialog run={run} close={() => setOpen(false)} />}
    </div>
  );
}

function TagsDialog({ run, close }: { run: Run; close: () => void }) {
  const annotate = useAnnotate();
  const [note, setNote] = useState(run.note);
  const [text, setText] = useState(
    Object.entries(run.tags)
      .map(([key, value]) => `${key}=${value}`)
      .join("\n"),
  );
  function submit() {
    const wanted = readTags(text);
    const removed = Object.keys(run.tags).filter((key) => !(key in wanted));
    const tags = { ...Object.fromEntries(removed.map((key) => [key, ""])), ...wanted };
    annotate.mutate({ ids: [run.id], change: () => ({ tags, note }) });
    close();
  }
  return (
    <Dialog title="Tags and note" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <h2>Tags and note of {run.id}</h2>
        <label className="field">
          Tags, one KEY=VALUE a line
          <textarea
            className="input mono"
            rows={4}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </label>
        <label className="field">
          Note
          <textarea
            className="input"
            rows={4}
            value={note}
            onChange={(event) => setNote(event.target.value)}
          />
        </label>
        <div className="dialog-actions">
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button main">
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function readTags(text: string): Record<string, string> {
  const tags: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const [key = "", ...value] = line.split("=");
    if (key.trim()) tags[key.trim()] = value.join("=").trim() || "yes";
  }
  return tags;
}
