// Typed calls of the daemon's API. The browser sends the session's cookie; no secret is kept here.
import type { paths } from "./schema";

type Json<R> = R extends { 200: { content: { "application/json": infer A } } } ? A : unknown;
type Operation<P extends keyof paths, M extends "get" | "post"> = NonNullable<paths[P][M]>;
type PathsWith<M extends "get" | "post"> = {
  [P in keyof paths]: paths[P][M] extends undefined ? never : P;
}[keyof paths];
type Parameters<O, K extends "path" | "query"> = O extends { parameters: { [k in K]?: infer V } }
  ? V
  : never;
type Answer<O> = O extends { responses: infer R } ? Json<R> : never;
type Body<O> = O extends { requestBody?: { content: { "application/json": infer B } } } ? B : never;

interface Options<O> {
  path?: Parameters<O, "path">;
  query?: Parameters<O, "query">;
  signal?: AbortSignal;
}

/** What the daemon refused, or why no answer came. The message says what to do. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export function get<P extends PathsWith<"get">>(
  path: P,
  options: Options<Operation<P, "get">> = {},
): Promise<Answer<Operation<P, "get">>> {
  return call("GET", address(path, options.path, options.query), undefined, options.signal);
}

export function post<P extends PathsWith<"post">>(
  path: P,
  body: Body<Operation<P, "post">>,
  options: Options<Operation<P, "post">> = {},
): Promise<Answer<Operation<P, "post">>> {
  return call("POST", address(path, options.path, options.query), body, options.signal);
}

/** A path with its parameters filled in, and the query. Parameters without a value are left out. */
export function address(template: string, path?: unknown, query?: unknown): string {
  const values = (path ?? {}) as Record<string, string | number>;
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(values[name])),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null) search.set(name, String(value));
  }
  const text = search.toString();
  return text ? `${filled}?${text}` : filled;
}

export async function call<A>(
  method: "GET" | "POST" | "DELETE",
  url: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<A> {
  // A page of another origin cannot send this header, so the daemon takes the cookie only with it.
  const headers: Record<string, string> = { "X-Lockstep-Page": "1" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer: Response;
  try {
    answer = await fetch(url, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(
      0,
      "unavailable",
      "The daemon does not answer. This page tries again; `lockstep version` says if it runs.",
    );
  }
  if (!answer.ok) throw await refusal(answer);
  return answer.status === 204 ? (undefined as A) : await answer.json();
}

async function refusal(answer: Response): Promise<ApiError> {
  try {
    const { error } = await answer.json();
    return new ApiError(answer.status, error.code, error.message);
  } catch {
    return new ApiError(
      answer.status,
      "unavailable",
      `The daemon answered ${answer.status} ${answer.statusText}. Its log has the reason: \`lockstep serve --help\` names it.`,
    );
  }
}
