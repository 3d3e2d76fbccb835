import { type ReactNode, useEffect, useRef } from "react";

/** A modal dialog. Escape and a click beside it close it. */
export function Dialog(props: { title: string; close: () => void; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog already.
    <dialog
      ref={dialog}
      aria-label={props.title}
      onClose={props.close}
      onClick={(event) => event.target === dialog.current && props.close()}
    >
      {props.children}
    </dialog>
  );
}
