// The address is the state of the page: views read it, links and `navigate` change it.
import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from "react";

const listeners = new Set<() => void>();

/** Calls the listener at each change of the address, until the returned function is called. */
export function onAddress(listener: () => void): () => void {
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

/** A part of the address. Components render again only when this part changes. */
export function useAddress(part: () => string): string {
  return useSyncExternalStore(onAddress, part);
}

export function usePath(): string {
  return useAddress(() => location.pathname);
}

/** One parameter of the address, and a setter that replaces it. An empty text removes it. */
export function useParameter(name: string): [string, (value: string) => void] {
  const value = useAddress(() => readParameter(name));
  return [value, (value) => setParameters({ [name]: value })];
}

export function readParameter(name: string): string {
  const { search } = location;
  if (search !== read.search) read = { search, values: new URLSearchParams(search) };
  return read.values.get(name) ?? "";
}

// A change of the address is read by each part of a view.
let read = { search: "", values: new URLSearchParams() };

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
