// The worker that all tabs of this daemon share: one connection for all of them. A browser opens
// six connections to a host, which a stream in each tab would use up.
import { Feed, type Message } from "./feed";

/** What a tab says: it is there, it has gone, or its reader has changed. */
export type Request = "hello" | "bye" | "restart";

interface SharedScope {
  onconnect: ((event: MessageEvent) => void) | null;
}

const tabs = new Set<MessagePort>();
const feed = new Feed(tellAll);

function tellAll(message: Message): void {
  for (const tab of tabs) tab.postMessage(message);
}

function handle(tab: MessagePort, request: Request): void {
  if (request === "bye") {
    tabs.delete(tab);
    if (tabs.size === 0) feed.stop();
    return;
  }
  tabs.add(tab);
  if (request === "restart") {
    feed.restart();
    return;
  }
  if (feed.isOpen) tab.postMessage({ kind: "open", resumed: true } satisfies Message);
  feed.start();
}

(self as unknown as SharedScope).onconnect = (event) => {
  const tab = event.ports[0];
  if (tab) tab.onmessage = ({ data }: MessageEvent<Request>) => handle(tab, data);
};
