// The reader's session. Its secret is in a cookie that scripts cannot read.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { restartLive } from "../live/live";
import { ApiError, call, get, post } from "./client";
import type { Run, WhoAmI } from "./types";

/** The reader; null: not logged in. That is an answer and no error, so it is not asked again. */
export function useWhoAmI() {
  return useQuery({
    queryKey: ["whoami"],
    queryFn: ({ signal }) => whoAmI(signal),
    staleTime: 60_000,
  });
}

async function whoAmI(signal: AbortSignal): Promise<WhoAmI | null> {
  try {
    return await get("/api/v1/whoami", { signal });
  } catch (error) {
    if (isLoggedOut(error)) return null;
    throw error;
  }
}

export function isLoggedOut(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401;
}

export type LogIn =
  | { token: string }
  | { code: string }
  | { user: string; password: string; new_password?: string };

export async function logIn(request: LogIn) {
  const answer = await post("/api/v1/session", request);
  restartLive();
  return answer;
}

export function useLogOut(): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    try {
      await call("DELETE", "/api/v1/session");
    } catch (error) {
      if (!isLoggedOut(error)) throw error;
    }
    restartLive();
    client.clear();
    location.assign("/login");
  };
}

export function useLogInWays() {
  return useQuery({
    queryKey: ["login"],
    queryFn: ({ signal }) => get("/api/v1/login", { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** The projects to which the reader may submit runs. */
export function maySubmitTo(who: WhoAmI): string[] {
  const roles = Object.entries(who.projects);
  return roles.flatMap(([project, role]) => (role === "viewer" ? [] : [project])).sort();
}

/** Mirrors the daemon's rule, so that no button is shown that it would refuse (docs/design/people.md). */
export function mayControl(who: WhoAmI | null | undefined, run: Run): boolean {
  if (!who) return false;
  if (who.admin) return true;
  const role = who.projects[run.spec.project];
  return role === "manager" || (role === "member" && run.origin.user === who.user);
}
