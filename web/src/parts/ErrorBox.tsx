/** An error of a call, as the daemon worded it, with a way to try again. */
export function ErrorBox({ error, retry }: { error: unknown; retry?: () => void }) {
  const message = error instanceof Error ? error.message : String(error);
  return (
    <div className="notice bad" role="alert">
      <strong>Error</strong>
      <span className="grow">{message}</span>
      {retry && (
        <button type="button" className="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}
