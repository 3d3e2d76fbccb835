// The address is the state of the page: views read it, links and `navigate` change it.
import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from "react";

const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("popstate", listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("popstate", listener);
  };
}

export function navigate(to: string, how: "push" | "replace" = "push"): void {
  if (to === location.pathname + location.search) return;
  if (how === "push") history.pushState(null, "", to);
  else history.replaceState(null, "", to);
  for (const listener of listeners) listener();
}

/** The path and the query of the address, such as "/runs/demo/42?x=time". */
export function useAddress(): URL {
  const text = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  return new URL(text, location.origin);
}

/** One parameter of the address, and a setter that replaces it. An empty text removes it. */
export function useParameter(name: string): [string, (value: string) => void] {
  const address = useAddress();
  return [address.searchParams.get(name) ?? "", (value) => setParameters({ [name]: value })];
}

export function setParameters(values: Record<string, string>): void {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
  }
  navigate(address.pathname + readable(address.search), "replace");
}

// URLSearchParams escapes what a query may have; without that, addresses can be read.
function readable(search: string): string {
  return search.replace(/%2F/g, "/").replace(/%3A/g, ":").replace(/%2C/g, ",");
}

export function Link({ href = "", ...rest }: AnchorHTMLAttributes<HTMLAnchorElement>) {
  function follow(event: MouseEvent<HTMLAnchorElement>) {
    rest.onClick?.(event);
    const special = event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0;
    if (special || event.defaultPrevented) return;
    event.preventDefault();
    navigate(href);
  }
  return <a href={href} {...rest} onClick={follow} />;
}

export function runPath(id: string, tab = ""): string {
  return `/runs/${id}${tab ? `/${tab}` : ""}`;
}
