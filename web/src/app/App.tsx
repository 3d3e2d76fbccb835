import { lazy, Suspense, useEffect, useState } from "react";
import { useWhoAmI } from "../api/session";
import { Empty } from "../parts/Empty";
import { ErrorBox } from "../parts/ErrorBox";
import { BudgetView } from "../views/budget/BudgetView";
import { ClusterView } from "../views/cluster/ClusterView";
import { LogInView } from "../views/login/LogInView";
import { RunsView } from "../views/runs/RunsView";
import { SettingsView } from "../views/settings/SettingsView";
import { ErrorBoundary } from "./ErrorBoundary";
import { HelpDialog } from "./HelpDialog";
import { handleKey, useKeys } from "./keyboard";
import { Palette } from "./Palette";
import { navigate, usePath } from "./router";
import { Shell } from "./Shell";
import { toggleTheme } from "./theme";

// Views with charts are loaded when they are first opened.
const RunView = lazy(() => import("../views/run/RunView"));
const SubmitView = lazy(() => import("../views/submit/SubmitView"));
const ReportsView = lazy(() => import("../views/report/ReportsView"));
const ReportView = lazy(() => import("../views/report/ReportView"));
const CompareView = lazy(() => import("../views/compare/CompareView"));

export function App() {
  const pathname = usePath();
  const who = useWhoAmI();
  const [shown, setShown] = useState<"" | "help" | "palette">("");
  useEffect(() => {
    window.addEventListener("keydown", handleKey);
    return () => window.removeEventListener("keydown", handleKey);
  }, []);
  useKeys({
    "?": () => setShown("help"),
    "mod+k": () => setShown("palette"),
    "g r": () => navigate("/"),
    "g n": () => navigate("/submit"),
    "g p": () => navigate("/reports"),
    "g c": () => navigate("/cluster"),
    "g b": () => navigate("/budget"),
    "g s": () => navigate("/settings"),
    t: toggleTheme,
  });
  if (pathname === "/login") return <LogInView next="/" />;
  if (who.data === null) return <LogInView next={pathname + location.search} />;
  // Views ask the daemon only once the reader is known. Without an answer they say so themselves.
  if (who.isPending && who.failureCount === 0) return null;
  return (
    <Shell path={pathname} help={() => setShown("help")}>
      {who.isError && (
        <div className="view-notice">
          <ErrorBox error={who.error} retry={() => void who.refetch()} />
        </div>
      )}
      <ErrorBoundary at={pathname}>
        <Suspense fallback={<div className="view" />}>
          <View path={pathname} />
        </Suspense>
      </ErrorBoundary>
      {shown === "help" && <HelpDialog close={() => setShown("")} />}
      {shown === "palette" && <Palette close={() => setShown("")} />}
    </Shell>
  );
}

function View({ path }: { path: string }) {
  const [, view = "", project, number, tab] = path.split("/").map(decodeURIComponent);
  if (view === "" || (view === "runs" && !project)) return <RunsView />;
  if (view === "runs" && project && number) {
    const id = `${project}/${number}`;
    return <RunView key={id} id={id} tab={tab ?? ""} />;
  }
  if (view === "compare") return <CompareView />;
  if (view === "reports") {
    return project ? <ReportView key={project} id={project} /> : <ReportsView />;
  }
  if (view === "submit") return <SubmitView />;
  if (view === "cluster") return <ClusterView />;
  if (view === "budget") return <BudgetView />;
  if (view === "settings") return <SettingsView />;
  return (
    <div className="view">
      <Empty title="There is no such view">
        The address may be of an older version of Lockstep.
      </Empty>
    </div>
  );
}
