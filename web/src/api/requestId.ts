/** Names a submission, so that a repeated call makes no second run. Also over plain HTTP, where
 * browsers have no crypto.randomUUID. */
export function requestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
