import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { get, post } from "../../api/client";
import type { NoticeTarget, WhoAmI } from "../../api/types";
import { say, sayError } from "../../app/toasts";
import { CommandHint } from "../../parts/CommandHint";
import { ErrorBox } from "../../parts/ErrorBox";
import { Time } from "../../parts/Time";
import { WideBox } from "../../parts/WideBox";

const kinds = ["webhook", "slack", "mail"] as const;
const causes = ["failed", "ended", "budget", "finding"] as const;
type Kind = (typeof kinds)[number] | "command";
type Cause = (typeof causes)[number];

/** Where notices of runs and budgets go. */
export function Notices({ who }: { who: WhoAmI }) {
  const client = useQueryClient();
  const targets = useQuery({
    queryKey: ["notices"],
    queryFn: ({ signal }) => get("/api/v1/notices", { signal }),
  });
  const onSettled = () => void client.invalidateQueries({ queryKey: ["notices"] });
  const add = useMutation({
    mutationFn: (target: NoticeTarget) => post("/api/v1/notices", target),
    onError: sayError,
    onSettled,
  });
  const remove = useMutation({
    mutationFn: (notice: string) =>
      post("/api/v1/notices/{notice}/remove", undefined as never, { path: { notice } }),
    onError: sayError,
    onSettled,
  });
  const test = useMutation({
    mutationFn: (notice: string) =>
      post("/api/v1/notices/{notice}/test", undefined as never, { path: { notice } }),
    onSuccess: ({ delivered, answer }) =>
      say(delivered ? `It was delivered: ${answer}` : answer, delivered ? undefined : "bad"),
    onError: sayError,
    onSettled,
  });
  const list = targets.data?.targets ?? [];
  return (
    <section className="card">
      <header>
        <h2>Notices</h2>
        <span className="grow" />
        <CommandHint command="lockstep notice ls" />
      </header>
      {targets.isError && <ErrorBox error={targets.error} />}
      {list.length > 0 && (
        <WideBox label="Notices">
          <table className="plain">
            <thead>
              <tr>
                <th>To</th>
                <th>Of</th>
                <th>When</th>
                <th className="number">Waiting</th>
                <th>Last delivered</th>
                <th>Problem</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {list.map((target) => (
                <tr key={target.id}>
                  <td>
                    <span className="tag">{target.kind}</span> {target.to}
                  </td>
                  <td>
                    {target.scope === "own" ? `runs of ${target.user}` : target.project || "all"}
                  </td>
                  <td className="muted">{target.on.join(", ")}</td>
                  <td className="number">{target.waiting}</td>
                  <td>
                    {target.delivered ? (
                      <Time at={target.delivered} />
                    ) : (
                      <span className="faint">–</span>
                    )}
                  </td>
                  <td className="wide-text">{target.problem}</td>
                  <td className="number row">
                    <button
                      type="button"
                      className="button"
                      onClick={() => test.mutate(String(target.id))}
                    >
                      Test
                    </button>
                    <button
                      type="button"
                      className="button danger"
                      onClick={() => remove.mutate(String(target.id))}
                    >
                      Remove
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </WideBox>
      )}
      <AddTarget who={who} add={(target) => add.mutate(target)} />
    </section>
  );
}

function AddTarget({ who, add }: { who: WhoAmI; add: (target: NoticeTarget) => void }) {
  const [kind, setKind] = useState<Kind>("webhook");
  const [where, setWhere] = useState("");
  const [scope, setScope] = useState("own");
  const [on, setOn] = useState<Cause[]>(["failed", "budget", "finding"]);
  const managed = Object.entries(who.projects).flatMap(([project, role]) =>
    role === "manager" ? [project] : [],
  );
  function submit(event: FormEvent) {
    event.preventDefault();
    const of =
      scope === "all" ? { scope: "all" as const } : scope === "own" ? {} : { project: scope };
    add({ kind, where, on, ...of });
    setWhere("");
  }
  return (
    <form className="add-token" onSubmit={submit}>
      <select
        className="input"
        aria-label="How"
        value={kind}
        onChange={({ target }) => setKind(target.value as Kind)}
      >
        {[...kinds, ...(who.admin ? ["command"] : [])].map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
      <input
        className="input"
        required
        aria-label="Where"
        placeholder={
          kind === "mail" ? "ann@example.com" : kind === "command" ? "its name" : "https://…"
        }
        value={where}
        onChange={({ target }) => setWhere(target.value)}
      />
      <select
        className="input"
        aria-label="Of which runs"
        value={scope}
        onChange={({ target }) => setScope(target.value)}
      >
        <option value="own">of my runs</option>
        {managed.map((project) => (
          <option key={project} value={project}>
            of {project}
          </option>
        ))}
        {who.admin && <option value="all">of all</option>}
      </select>
      {causes.map((cause) => (
        <label className="row muted" key={cause}>
          <input
            type="checkbox"
            checked={on.includes(cause)}
            onChange={({ target }) =>
              setOn(target.checked ? [...on, cause] : on.filter((each) => each !== cause))
            }
          />
          {cause}
        </label>
      ))}
      <button type="submit" className="button" disabled={on.length === 0}>
        Add
      </button>
    </form>
  );
}
