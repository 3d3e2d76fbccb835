import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { post } from "../../api/client";
import { CommandHint } from "../../parts/CommandHint";
import { Dialog } from "../../parts/Dialog";
import { ErrorBox } from "../../parts/ErrorBox";
import { Time } from "../../parts/Time";

/** Makes a token with which a machine joins, and shows what to type there. */
export function JoinDialog({ close }: { close: () => void }) {
  const [host, setHost] = useState("");
  const [pod, setPod] = useState("");
  const make = useMutation({
    mutationFn: () =>
      post("/api/v1/hosts/{host}/token", { pod: pod || undefined }, { path: { host } }),
  });
  return (
    <Dialog title="Add a host" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          make.mutate();
        }}
      >
        <h2>Add a host</h2>
        <p className="muted">
          Over SSH, one command installs Lockstep there and joins the machine:{" "}
          <CommandHint command="lockstep host add USER@MACHINE" />
        </p>
        <p className="muted">Or make a token here, and type the command on the machine.</p>
        <div className="fields">
          <label className="field">
            Name on the map
            <input
              className="input"
              required
              pattern="[A-Za-z0-9][A-Za-z0-9._\-]{0,63}"
              placeholder="gpu1"
              value={host}
              onChange={(event) => setHost(event.target.value)}
            />
          </label>
          <label className="field">
            Pod
            <input
              className="input"
              placeholder="default"
              value={pod}
              onChange={(event) => setPod(event.target.value)}
            />
          </label>
        </div>
        {make.isError && <ErrorBox error={make.error} />}
        {make.data && (
          <div className="notice good column">
            <strong>On {host}, as its administrator</strong>
            <CommandHint
              boxed
              command={`echo ${make.data.token} | lockstep host join ${location.origin}`}
            />
            <span className="muted">
              The token works once, and ends <Time at={make.data.end} />.
            </span>
          </div>
        )}
        <div className="dialog-actions">
          <CommandHint
            command={`lockstep host token ${host || "HOST"}${pod ? ` --pod ${pod}` : ""}`}
          />
          <span className="grow" />
          <button type="button" className="button" onClick={close}>
            Close
          </button>
          <button type="submit" className="button main" disabled={!host || make.isPending}>
            Make a token
          </button>
        </div>
      </form>
    </Dialog>
  );
}
