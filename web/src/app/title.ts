import { useEffect } from "react";

/** The title of the browser's tab: the narrowest name first, because tabs are narrow. */
export function useViewTitle(...parts: string[]): void {
  const title = [...parts, "Lockstep"].join(" · ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}
