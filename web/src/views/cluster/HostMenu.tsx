import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { post } from "../../api/client";
import type { Host } from "../../api/types";
import { shellWord } from "../../app/command";
import { say, sayError } from "../../app/toasts";
import { CommandHint } from "../../parts/CommandHint";
import { Dialog } from "../../parts/Dialog";
import { Menu } from "../../parts/Menu";

type Act = "cordon" | "drain" | "release";

const acts: Record<Act, { label: string; state: Host["state"]; text: string; done: string }> = {
  cordon: {
    label: "Cordon",
    state: "closed",
    text: "No new run starts on it. Its runs go on.",
    done: "takes no new run",
  },
  drain: {
    label: "Drain",
    state: "drained",
    text: "No new run starts on it. Its runs save a checkpoint and go on elsewhere.",
    done: "gives its runs away",
  },
  release: {
    label: "Release",
    state: "open",
    text: "Runs may start on it again.",
    done: "takes runs again",
  },
};

/** What an administrator does to a host. */
export function HostMenu({ host }: { host: Host }) {
  const [act, setAct] = useState<Act | "">("");
  const possible = (["cordon", "drain", "release"] as const).filter(
    (name) => acts[name].state !== host.state,
  );
  return (
    <>
      <Menu label="⋯" title={`What to do with ${host.id}`}>
        {possible.map((name) => (
          <button type="button" key={name} onClick={() => setAct(name)}>
            {acts[name].label}
          </button>
        ))}
      </Menu>
      {act && <HostDialog host={host} act={act} close={() => setAct("")} />}
    </>
  );
}

function HostDialog({ host, act, close }: { host: Host; act: Act; close: () => void }) {
  const [reason, setReason] = useState("");
  const client = useQueryClient();
  const { label, state, text, done } = acts[act];
  const change = useMutation({
    mutationFn: () => post("/api/v1/hosts", { host: host.id, state, reason }),
    onSuccess: () => {
      say(`${host.id} ${done}.`);
      close();
    },
    onError: sayError,
    onSettled: () => void client.invalidateQueries({ queryKey: ["hosts"] }),
  });
  return (
    <Dialog title={`${label} ${host.id}`} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate();
        }}
      >
        <h2>
          {label} {host.id}
        </h2>
        <p className="muted">{text}</p>
        {act !== "release" && (
          <label className="field">
            Reason, which runs that wait show
            <input
              className="input"
              value={reason}
              onChange={(event) => setReason(event.target.value)}
            />
          </label>
        )}
        <div className="dialog-actions">
          <CommandHint
            command={`lockstep host ${act} ${host.id}${reason ? ` --reason ${shellWord(reason)}` : ""}`}
          />
          <span className="grow" />
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button
            type="submit"
            className={`button ${act === "drain" ? "danger" : "main"}`}
            disabled={change.isPending}
          >
            {label}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
