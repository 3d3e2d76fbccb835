import type { ReactNode } from "react";
import { CommandHint } from "./CommandHint";

/** A view without content: why, and the command that changes that. */
export function Empty(props: { title: string; children?: ReactNode; command?: string }) {
  return (
    <div className="empty">
      <strong>{props.title}</strong>
      {props.children && <p>{props.children}</p>}
      {props.command && <CommandHint command={props.command} boxed />}
    </div>
  );
}
