import { useQuery } from "@tanstack/react-query";
import { get } from "../../api/client";
import type { WhoAmI } from "../../api/types";
import { CommandHint } from "../../parts/CommandHint";
import { ErrorBox } from "../../parts/ErrorBox";

/** The projects that the reader may see, with their members. */
export function Projects({ who }: { who: WhoAmI }) {
  const projects = useQuery({
    queryKey: ["projects"],
    queryFn: ({ signal }) => get("/api/v1/projects", { signal }),
  });
  const managed = projects.data?.projects.find(
    ({ name }) => who.admin || who.projects[name] === "manager",
  );
  return (
    <section className="card">
      <header>
        <h2>Projects and members</h2>
        <span className="grow" />
        {managed && (
          <CommandHint command={`lockstep project member ${managed.name} USER --role member`} />
        )}
      </header>
      {projects.isError && <ErrorBox error={projects.error} />}
      <table className="plain">
        <tbody>
          {projects.data?.projects.map((project) => (
            <tr key={project.name}>
              <td className="project-name">{project.name}</td>
              <td>
                <div className="row members">
                  {project.members.map((member) => (
                    <span className="tag" key={member.user}>
                      {member.user}, {member.role}
                    </span>
                  ))}
                  {project.members.length === 0 && <span className="faint">no members</span>}
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
