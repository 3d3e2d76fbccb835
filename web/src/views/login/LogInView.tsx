import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { type LogIn, logIn, useLogInWays, useWhoAmI } from "../../api/session";
import { navigate } from "../../app/router";
import { CommandHint } from "../../parts/CommandHint";
import { takeCode } from "./code";
import "./login.css";

/** Asks for a user and password, a token, or sends the reader to the issuer of OIDC. */
export function LogInView({ next }: { next: string }) {
  const client = useQueryClient();
  const ways = useLogInWays();
  const who = useWhoAmI();
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [newPassword, setNewPassword] = useState<{ user: string; password: string } | null>(null);
  const begun = useRef(false);

  async function enter(request: LogIn, to: string) {
    setBusy(true);
    setError("");
    try {
      const answer = await logIn(request);
      if (answer?.needs_new_password && "user" in request) return setNewPassword(request);
      // A call from before the log-in may be on its way: its answer would be that of no session.
      await client.cancelQueries({ queryKey: ["whoami"] });
      await client.refetchQueries({ queryKey: ["whoami"] });
      navigate(to, "replace");
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure));
    } finally {
      setBusy(false);
    }
  }

  // A link of somebody else must not change the user of a reader who is logged in.
  async function follow(link: { code: string; next: string }) {
    setBusy(true);
    const answer = await who.refetch();
    if (answer.data === null) return enter({ code: link.code }, link.next);
    if (answer.data) return navigate(link.next, "replace");
    setError(answer.error?.message ?? "the daemon did not answer");
    setBusy(false);
  }

  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    const link = takeCode();
    if (link) void follow(link);
  });
  const loggedIn = !!who.data && location.pathname === "/login" && !busy;
  useEffect(() => {
    if (loggedIn) navigate(next, "replace");
  }, [loggedIn, next]);

  return (
    <main className="login">
      <div className="login-box">
        <div className="login-brand">
          <img src="/icon.svg" alt="" />
          <h1>Lockstep</h1>
        </div>
        {error && (
          <div className="notice bad" role="alert">
            <span>{error}</span>
          </div>
        )}
        {ways.data?.oidc && (
          <a className="button main" href="/login/oidc">
            Log in at {issuerName(ways.data.oidc_issuer)}
          </a>
        )}
        {newPassword ? (
          <NewPasswordForm
            busy={busy}
            submit={(password) => enter({ ...newPassword, new_password: password }, next)}
          />
        ) : (
          <LogInForm busy={busy} enter={(request) => enter(request, next)} />
        )}
        <p className="muted login-hint">
          On the daemon's machine this command opens the page without a token:
          <CommandHint command="lockstep open" boxed />
        </p>
      </div>
    </main>
  );
}

function issuerName(issuer: string): string {
  try {
    return new URL(issuer).host;
  } catch {
    return "your organization";
  }
}

function LogInForm({ busy, enter }: { busy: boolean; enter: (request: LogIn) => void }) {
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? "");
    const token = text("token").trim();
    enter(token ? { token } : { user: text("user").trim(), password: text("password") });
  }
  return (
    <form onSubmit={submit}>
      <label>
        User
        <input className="input" name="user" autoComplete="username" autoCapitalize="none" />
      </label>
      <label>
        Password
        <input className="input" name="password" type="password" autoComplete="current-password" />
      </label>
      <div className="or">or</div>
      <label>
        Token
        <input
          className="input mono"
          name="token"
          type="password"
          autoComplete="off"
          placeholder="lst_…"
        />
      </label>
      <button type="submit" className="button main" disabled={busy}>
        Log in
      </button>
    </form>
  );
}

function NewPasswordForm(props: { busy: boolean; submit: (password: string) => void }) {
  const [password, setPassword] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        props.submit(password);
      }}
    >
      <p>Your first password was for one log-in. Choose your own, with at least 8 characters.</p>
      <label>
        New password
        <input
          className="input"
          type="password"
          autoComplete="new-password"
          minLength={8}
          value={password}
          onChange={(event) => setPassword(event.target.value)}
          required
        />
      </label>
      <button type="submit" className="button main" disabled={props.busy}>
        Set the password and log in
      </button>
    </form>
  );
}
