// `lockstep open` opens /login#code=CODE&next=/runs/demo/1. The code is for one log-in.

/** Takes the code out of the address, so that it stays in no history. */
export function takeCode(): { code: string; next: string } | null {
  const fragment = location.hash.slice(1);
  if (!fragment) return null;
  history.replaceState(null, "", "/login");
  return readCode(fragment);
}

export function readCode(fragment: string): { code: string; next: string } | null {
  const values = new URLSearchParams(fragment);
  const code = values.get("code");
  return code ? { code, next: safePath(values.get("next")) } : null;
}

/** Only a path of this page: "//host" and "/\host" would lead to another host. */
export function safePath(path: string | null): string {
  return path && /^\/(?![/\\])/.test(path) ? path : "/";
}
