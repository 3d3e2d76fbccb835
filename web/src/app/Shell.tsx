import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect } from "react";
import { useVersion } from "../api/queries";
import { maySubmitTo, useLogOut, useWhoAmI } from "../api/session";
import { startLive, useIsLive } from "../live/live";
import { CommandHint } from "../parts/CommandHint";
import { useShownCommand } from "./command";
import { Icon } from "./icons";
import { Link } from "./router";
import { toggleTheme } from "./theme";
import { sayError, Toasts } from "./toasts";

const items = [
  ["/", "Runs", "runs"],
  ["/submit", "Submit", "submit"],
  ["/reports", "Reports", "report"],
  ["/cluster", "Cluster", "cluster"],
  ["/budget", "Budget", "budget"],
  ["/settings", "Settings", "settings"],
] as const;

/** The frame of every view: navigation, the view, and the status bar with the view's command. */
export function Shell(props: { path: string; help: () => void; children: ReactNode }) {
  const client = useQueryClient();
  useEffect(() => startLive(client), [client]);
  return (
    <div className="shell">
      <Sidebar path={props.path} help={props.help} />
      <main className="main">{props.children}</main>
      <StatusBar help={props.help} />
      <Toasts />
    </div>
  );
}

function Sidebar({ path, help }: { path: string; help: () => void }) {
  const who = useWhoAmI();
  const logOut = useLogOut();
  // A viewer has no project to which it may submit.
  const maySubmit = who.data ? maySubmitTo(who.data).length > 0 : false;
  const shown = items.filter(([href]) => href !== "/submit" || maySubmit);
  const isCurrent = (href: string) =>
    href === "/"
      ? path === "/" || path.startsWith("/runs") || path.startsWith("/compare")
      : path.startsWith(href);
  return (
    <nav className="sidebar" aria-label="Views">
      <Link className="brand" href="/" aria-label="Lockstep">
        <img src="/icon.svg" alt="" />
        <span>Lockstep</span>
      </Link>
      {shown.map(([href, label, icon]) => (
        <Link
          key={href}
          className="item"
          href={href}
          aria-current={isCurrent(href) ? "page" : undefined}
        >
          <Icon name={icon} />
          {label}
        </Link>
      ))}
      <div className="end">
        <button type="button" className="item wide" onClick={help}>
          <Icon name="help" />
          Keys
        </button>
        <button type="button" className="item" onClick={toggleTheme} title="Dark or light">
          <Icon name="theme" />
          <span className="item-label">Theme</span>
        </button>
        {who.data && (
          <>
            <button
              type="button"
              className="item"
              aria-label="Log out"
              onClick={() => logOut().catch(sayError)}
            >
              <Icon name="out" />
              <span className="item-label">Log out</span>
            </button>
            <div className="who clip" title={who.data.user}>
              {who.data.user}
            </div>
          </>
        )}
      </div>
    </nav>
  );
}

function StatusBar({ help }: { help: () => void }) {
  const command = useShownCommand();
  const version = useVersion();
  const live = useIsLive();
  const lost = version.isError;
  const problems = version.data?.problems ?? [];
  return (
    <footer className="status">
      {command && <CommandHint command={command} />}
      <span className="grow" />
      {problems.length > 0 && (
        <span className="clip" title={problems.join("\n")}>
          {problems[0]}
        </span>
      )}
      <span className={`connection ${lost ? "lost" : live ? "" : "waiting"}`}>
        {lost ? "The daemon does not answer; trying again" : live ? "Live" : "Connecting"}
      </span>
      {version.data && <span className="faint keys">{version.data.version}</span>}
      <button type="button" className="command keys" onClick={help}>
        <kbd>?</kbd> keys
      </button>
    </footer>
  );
}
