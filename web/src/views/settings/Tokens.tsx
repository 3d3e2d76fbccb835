import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { get, post } from "../../api/client";
import { sayError } from "../../app/toasts";
import { CommandHint } from "../../parts/CommandHint";
import { ErrorBox } from "../../parts/ErrorBox";
import { Time } from "../../parts/Time";
import { WideBox } from "../../parts/WideBox";
import "./settings.css";

/** The tokens of the reader. The secret of a new one is shown once and kept nowhere. */
export function Tokens() {
  const client = useQueryClient();
  const tokens = useQuery({
    queryKey: ["tokens"],
    queryFn: ({ signal }) => get("/api/v1/tokens", { signal }),
  });
  const refresh = () => void client.invalidateQueries({ queryKey: ["tokens"] });
  const add = useMutation({
    mutationFn: (request: { name: string; expires: string }) => post("/api/v1/tokens", request),
    onSuccess: refresh,
    onError: sayError,
  });
  const revoke = useMutation({
    mutationFn: (token: string) =>
      post("/api/v1/tokens/{token}/revoke", undefined as never, { path: { token } }),
    onSuccess: refresh,
    onError: sayError,
  });
  const list = tokens.data?.tokens.filter((token) => !token.ended) ?? [];
  return (
    <section className="card">
      <header>
        <h2>Tokens</h2>
        <span className="grow" />
        <CommandHint command="lockstep token ls" />
      </header>
      {tokens.isError && <ErrorBox error={tokens.error} />}
      {add.data && (
        <div className="notice new-token">
          <strong>New token</strong>
          <code className="grow">{add.data.token}</code>
          <span className="muted">It is shown once.</span>
          <button type="button" className="button" onClick={() => add.reset()}>
            Hide
          </button>
        </div>
      )}
      {list.length > 0 && (
        <WideBox label="Tokens">
          <table className="plain">
            <thead>
              <tr>
                <th>Name</th>
                <th>Id</th>
                <th>Project</th>
                <th>Role</th>
                <th>Created</th>
                <th>Ends</th>
                <th>Last used</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {list.map((token) => (
                <tr key={token.id}>
                  <td>{token.name || <span className="faint">–</span>}</td>
                  <td>
                    <code>{token.id}</code>
                  </td>
                  <td>{token.project || "all"}</td>
                  <td>{token.role ?? "that of the user"}</td>
                  <td>
                    <Time at={token.created} />
                  </td>
                  <td>{token.ends ? <Time at={token.ends} /> : "never"}</td>
                  <td>
                    <Time at={token.last_used} />
                  </td>
                  <td className="number">
                    <button
                      type="button"
                      className="button danger"
                      onClick={() => revoke.mutate(token.id)}
                    >
                      Revoke
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </WideBox>
      )}
      <AddToken add={(name, expires) => add.mutate({ name, expires })} />
    </section>
  );
}

function AddToken({ add }: { add: (name: string, expires: string) => void }) {
  const [name, setName] = useState("");
  const [expires, setExpires] = useState("30d");
  function submit(event: FormEvent) {
    event.preventDefault();
    add(name, expires);
    setName("");
  }
  return (
    <form className="add-token" onSubmit={submit}>
      <input
        className="input"
        placeholder="Name of a new token"
        aria-label="Name of a new token"
        value={name}
        onChange={(event) => setName(event.target.value)}
        required
      />
      <select
        className="input"
        aria-label="Ends after"
        value={expires}
        onChange={(event) => setExpires(event.target.value)}
      >
        <option value="1d">for a day</option>
        <option value="30d">for 30 days</option>
        <option value="365d">for a year</option>
      </select>
      <button type="submit" className="button">
        Create
      </button>
    </form>
  );
}
