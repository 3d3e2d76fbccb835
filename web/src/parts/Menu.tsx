import { type ReactNode, useEffect, useRef, useState } from "react";

/** A button that opens a menu below it. A click outside and Escape close it. */
export function Menu(props: { label: ReactNode; title?: string; children: ReactNode }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !isInside(event, box.current))
        setOpen(false);
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("keydown", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("keydown", close);
    };
  }, [open]);
  return (
    <div className="menu-box" ref={box}>
      <button
        type="button"
        className="button"
        title={props.title}
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {props.label}
      </button>
      {open && <div className="menu">{props.children}</div>}
    </div>
  );
}

function isInside(event: Event, box: HTMLElement | null): boolean {
  return !!box?.contains(event.target as Node);
}
