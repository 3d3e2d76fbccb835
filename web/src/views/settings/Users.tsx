import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { get, post } from "../../api/client";
import { sayError } from "../../app/toasts";
import { CommandHint } from "../../parts/CommandHint";
import { ErrorBox } from "../../parts/ErrorBox";
import { Time } from "../../parts/Time";
import { WideBox } from "../../parts/WideBox";

/** All users, for administrators: they add some, and disable those that left. */
export function Users({ self }: { self: string }) {
  const client = useQueryClient();
  const users = useQuery({
    queryKey: ["users"],
    queryFn: ({ signal }) => get("/api/v1/users", { signal }),
  });
  const options = {
    onError: sayError,
    onSettled: () => void client.invalidateQueries({ queryKey: ["users"] }),
  };
  const add = useMutation({
    mutationFn: (name: string) => post("/api/v1/users", { name }),
    ...options,
  });
  const change = useMutation({
    mutationFn: ({ user, disabled }: { user: string; disabled: boolean }) =>
      post("/api/v1/users/{user}", { disabled }, { path: { user } }),
    ...options,
  });
  return (
    <section className="card">
      <header>
        <h2>Users</h2>
        <span className="grow" />
        <CommandHint command="lockstep user ls" />
      </header>
      {users.isError && <ErrorBox error={users.error} />}
      <WideBox label="Users">
        <table className="plain">
          <thead>
            <tr>
              <th>User</th>
              <th>Kind</th>
              <th>Projects</th>
              <th className="number">Tokens</th>
              <th>Added</th>
              <th />
            </tr>
          </thead>
          <tbody>
            {users.data?.users.map((user) => (
              <tr key={user.name}>
                <td>
                  {user.name} {user.admin && <span className="tag">administrator</span>}
                  {user.disabled && <span className="badge warn">disabled</span>}
                </td>
                <td className="muted">{user.kind}</td>
                <td className="muted">
                  {Object.entries(user.projects)
                    .map(([project, role]) => `${project} (${role})`)
                    .join(", ") || "–"}
                </td>
                <td className="number">{user.tokens}</td>
                <td>
                  <Time at={user.created} />
                </td>
                <td className="number">
                  {user.name !== self && (
                    <button
                      type="button"
                      className={`button ${user.disabled ? "" : "danger"}`}
                      onClick={() => change.mutate({ user: user.name, disabled: !user.disabled })}
                    >
                      {user.disabled ? "Enable" : "Disable"}
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </WideBox>
      <AddUser add={(name) => add.mutate(name)} />
    </section>
  );
}

function AddUser({ add }: { add: (name: string) => void }) {
  const [name, setName] = useState("");
  function submit(event: FormEvent) {
    event.preventDefault();
    add(name);
    setName("");
  }
  return (
    <form className="add-token" onSubmit={submit}>
      <input
        className="input"
        required
        placeholder="Name of a new user"
        aria-label="Name of a new user"
        value={name}
        onChange={({ target }) => setName(target.value)}
      />
      <button type="submit" className="button">
        Add
      </button>
    </form>
  );
}
