import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { isLoggedOut } from "./api/session";
import { App } from "./app/App";
import { applyTheme } from "./app/theme";
import "./design/tokens.css";
import "./design/base.css";
import "./design/parts.css";
import "./design/shell.css";

applyTheme();

/** A refusal stays one when it is asked again; a daemon that restarts answers soon. */
function retry(failures: number, error: Error): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500
    ? false
    : failures < 3;
}

/** A session that has ended shows the log-in, whichever call found out. */
function onError(error: Error): void {
  if (isLoggedOut(error)) void client.invalidateQueries({ queryKey: ["whoami"] });
}

const client = new QueryClient({
  queryCache: new QueryCache({ onError }),
  defaultOptions: { queries: { retry, refetchOnWindowFocus: true } },
});

const page = document.getElementById("page");
if (page) {
  createRoot(page).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}
