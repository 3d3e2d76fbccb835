import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { get, post } from "../../api/client";
import type { WhoAmI } from "../../api/types";
import { sayError } from "../../app/toasts";
import { CommandHint } from "../../parts/CommandHint";
import { ErrorBox } from "../../parts/ErrorBox";

const roles = ["viewer", "member", "manager"] as const;
type Role = (typeof roles)[number];

interface Change {
  project: string;
  user: string;
  role: Role | null;
}

/** The projects that the reader may see, with their members. Managers change them. */
export function Projects({ who }: { who: WhoAmI }) {
  const client = useQueryClient();
  const projects = useQuery({
    queryKey: ["projects"],
    queryFn: ({ signal }) => get("/api/v1/projects", { signal }),
  });
  const change = useMutation({
    mutationFn: ({ project, user, role }: Change) =>
      post("/api/v1/projects/{project}/members", { user, role }, { path: { project } }),
    onError: sayError,
    onSettled: () => void client.invalidateQueries({ queryKey: ["projects"] }),
  });
  const manages = (name: string) => who.admin || who.projects[name] === "manager";
  return (
    <section className="card">
      <header>
        <h2>Projects and members</h2>
        <span className="grow" />
        <CommandHint command="lockstep project ls" />
      </header>
      {projects.isError && <ErrorBox error={projects.error} />}
      <table className="plain">
        <tbody>
          {projects.data?.projects.map((project) => (
            <tr key={project.name}>
              <td className="project-name">{project.name}</td>
              <td>
                <div className="row members">
                  {project.members.map((member) =>
                    manages(project.name) && !project.owner ? (
                      <MemberTag
                        key={member.user}
                        user={member.user}
                        project={project.name}
                        role={member.role}
                        set={(role) =>
                          change.mutate({ project: project.name, user: member.user, role })
                        }
                      />
                    ) : (
                      <span className="tag" key={member.user}>
                        {member.user}, {member.role}
                      </span>
                    ),
                  )}
                  {project.members.length === 0 && (
                    <span className="faint">
                      {project.owner ? `the project of ${project.owner}` : "no members"}
                    </span>
                  )}
                </div>
              </td>
              <td className="number">
                {manages(project.name) && !project.owner && (
                  <AddMember
                    project={project.name}
                    add={(user, role) => change.mutate({ project: project.name, user, role })}
                  />
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function MemberTag(props: {
  user: string;
  project: string;
  role: Role;
  set: (role: Role | null) => void;
}) {
  return (
    <span className="tag member">
      {props.user}
      <select
        aria-label={`Role of ${props.user} in ${props.project}`}
        value={props.role}
        onChange={({ target }) => props.set(roles.find((role) => role === target.value) ?? null)}
      >
        {roles.map((role) => (
          <option key={role}>{role}</option>
        ))}
        <option value="">remove</option>
      </select>
    </span>
  );
}

function AddMember({ project, add }: { project: string; add: (user: string, role: Role) => void }) {
  const [user, setUser] = useState("");
  function submit(event: FormEvent) {
    event.preventDefault();
    add(user, "member");
    setUser("");
  }
  return (
    <form className="row add-member" onSubmit={submit}>
      <input
        className="input"
        required
        placeholder="User"
        aria-label={`A new member of ${project}`}
        value={user}
        onChange={({ target }) => setUser(target.value)}
      />
      <button type="submit" className="button">
        Add
      </button>
    </form>
  );
}
