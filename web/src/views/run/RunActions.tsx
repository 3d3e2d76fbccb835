import { useState } from "react";
import { type Act, useAct, useExtend } from "../../api/actions";
import { mayControl, useWhoAmI } from "../../api/session";
import type { Run } from "../../api/types";
import { CommandHint } from "../../parts/CommandHint";
import { Dialog } from "../../parts/Dialog";
import { Menu } from "../../parts/Menu";
import { isActive } from "../../parts/StateBadge";
import { ForkDialog } from "./ForkDialog";

/** The actions that the state of the run and the rights of the reader allow. */
export function RunActions({ run }: { run: Run }) {
  const who = useWhoAmI();
  const act = useAct();
  const [asked, setAsked] = useState<"" | "stop" | "extend" | "fork" | "remove">("");
  if (!mayControl(who.data, run)) return null;
  const now = (name: Act) => act.mutate({ ids: [run.id], name });
  const close = () => setAsked("");
  const ended = !isActive(run.state);
  const external = run.launcher !== "";
  return (
    <div className="row">
      {run.state === "queued" && (
        <button type="button" className="button" onClick={() => now(run.held ? "release" : "hold")}>
          {run.held ? "Release" : "Hold"}
        </button>
      )}
      {ended && run.state !== "succeeded" && !external && (
        <button type="button" className="button" onClick={() => now("resume")}>
          Resume
        </button>
      )}
      {!external && (
        <button type="button" className="button" onClick={() => setAsked("fork")}>
          Fork
        </button>
      )}
      {!ended && (
        <button type="button" className="button" onClick={() => setAsked("extend")}>
          Extend
        </button>
      )}
      {!ended && (
        <button type="button" className="button danger" onClick={() => setAsked("stop")}>
          Stop
        </button>
      )}
      {ended && (
        <Menu label="More" title="More actions">
          <button type="button" className="danger" onClick={() => setAsked("remove")}>
            Remove for good
          </button>
        </Menu>
      )}
      {asked === "stop" && (
        <Confirm
          title={`Stop ${run.id}?`}
          text="Its ranks get SIGTERM, and SIGKILL after the grace period. It can be resumed."
          label="Stop"
          command={`lockstep stop ${run.id}`}
          close={close}
          confirm={() => now("stop")}
        />
      )}
      {asked === "remove" && (
        <Confirm
          title={`Remove ${run.id} for good?`}
          text="Its lines, metrics, checkpoints and files are deleted. This cannot be undone."
          label="Remove"
          command={`lockstep rm ${run.id}`}
          close={close}
          confirm={() => now("remove")}
        />
      )}
      {asked === "extend" && <ExtendDialog run={run} close={close} />}
      {asked === "fork" && <ForkDialog run={run} close={close} />}
    </div>
  );
}

interface ConfirmProps {
  title: string;
  text: string;
  label: string;
  command: string;
  close: () => void;
  confirm: () => void;
}

function Confirm(props: ConfirmProps) {
  return (
    <Dialog title={props.title} close={props.close}>
      <div className="body">
        <h2>{props.title}</h2>
        <p className="muted">{props.text}</p>
        <div className="dialog-actions">
          <CommandHint command={props.command} />
          <span className="grow" />
          <button type="button" className="button" onClick={props.close}>
            Cancel
          </button>
          <button
            type="button"
            className="button danger"
            onClick={() => {
              props.confirm();
              props.close();
            }}
          >
            {props.label}
          </button>
        </div>
      </div>
    </Dialog>
  );
}

function ExtendDialog({ run, close }: { run: Run; close: () => void }) {
  const extend = useExtend();
  const [extension, setExtension] = useState("1h");
  return (
    <Dialog title="Extend the time limit" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          extend.mutate({ id: run.id, extension });
          close();
        }}
      >
        <h2>Extend the time limit of {run.id}</h2>
        <p className="muted">Its limit is {run.time_limit ?? "that of its class"}. Add to it:</p>
        <input
          className="input"
          aria-label="Time to add"
          placeholder="1h 30m"
          value={extension}
          onChange={(event) => setExtension(event.target.value)}
        />
        <div className="dialog-actions">
          <CommandHint command={`lockstep extend ${run.id} ${extension.replaceAll(" ", "")}`} />
          <span className="grow" />
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button main" disabled={!extension.trim()}>
            Extend
          </button>
        </div>
      </form>
    </Dialog>
  );
}
