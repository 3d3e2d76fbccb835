import { useVersion } from "../../api/queries";
import { maySubmitTo, useWhoAmI } from "../../api/session";
import { useViewCommand } from "../../app/command";
import { toggleTheme, useTheme } from "../../app/theme";
import { useViewTitle } from "../../app/title";
import { Switch } from "../../parts/Switch";
import { Time } from "../../parts/Time";
import { Notices } from "./Notices";
import { Projects } from "./Projects";
import { Tokens } from "./Tokens";
import { Users } from "./Users";

/** The reader's account, its projects and tokens, and the daemon. */
export function SettingsView() {
  const who = useWhoAmI();
  const version = useVersion();
  const theme = useTheme();
  useViewTitle("Settings");
  useViewCommand("lockstep whoami");
  return (
    <div className="view stack">
      <div className="view-head">
        <h1>Settings</h1>
      </div>
      <section className="card">
        <header>
          <h2>Account</h2>
        </header>
        <table className="plain pairs">
          <tbody>
            <tr>
              <th scope="row">User</th>
              <td>
                {who.data?.user} {who.data?.admin && <span className="tag">administrator</span>}
              </td>
            </tr>
            <tr>
              <th scope="row">Projects</th>
              <td>
                {Object.entries(who.data?.projects ?? {})
                  .map(([project, role]) => `${project} (${role})`)
                  .join(", ")}
              </td>
            </tr>
            <tr>
              <th scope="row">This log-in ends</th>
              <td>{who.data?.token_ends ? <Time at={who.data.token_ends} /> : "never"}</td>
            </tr>
            <tr>
              <th scope="row">Appearance</th>
              <td>
                <Switch
                  label="Appearance"
                  value={theme}
                  choices={[
                    ["dark", "Dark"],
                    ["light", "Light"],
                  ]}
                  choose={(value) => value !== theme && toggleTheme()}
                />
              </td>
            </tr>
            <tr>
              <th scope="row">Daemon</th>
              <td>
                version {version.data?.version ?? "unknown"}
                {who.data?.address && <span className="muted"> at {who.data.address}</span>}
              </td>
            </tr>
          </tbody>
        </table>
      </section>
      {who.data?.kind === "person" && <Tokens />}
      {who.data && <Projects who={who.data} />}
      {who.data?.admin && <Users self={who.data.user} />}
      {who.data && maySubmitTo(who.data).length > 0 && <Notices who={who.data} />}
    </div>
  );
}
