// The daemon's stream of changes, read by one EventSource. It runs in the worker that the tabs of a
// browser share, or in the tab itself where there are no such workers.
import type { Changes } from "../api/types";

export type Message =
  | { kind: "open"; resumed: boolean }
  | { kind: "lost" }
  | { kind: "changes"; changes: Changes };

/** After a refusal the browser does not try again; a daemon that restarts answers 503 for a while. */
const pauses = [1_000, 2_000, 5_000, 15_000];

export class Feed {
  private source: EventSource | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private last = "";
  isOpen = false;

  constructor(
    private readonly tell: (message: Message) => void,
    private readonly open: (url: string) => EventSource = (url) => new EventSource(url),
  ) {}

  /** Connects if it is not connected, at once: a reader that has just logged in need not wait. */
  start(): void {
    if (this.source && this.source.readyState !== EventSource.CLOSED) return;
    this.connect();
  }

  /** With the cookie of now: another reader may have logged in. */
  restart(): void {
    this.stop();
    this.connect();
  }

  stop(): void {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = undefined;
    this.last = "";
    this.lose();
  }

  private connect(): void {
    clearTimeout(this.timer);
    this.source?.close();
    const source = this.open("/api/v1/events");
    this.source = source;
    source.onmessage = (event: MessageEvent<string>) => this.read(event);
    source.onerror = () => {
      this.lose();
      if (source.readyState === EventSource.CLOSED) this.connectLater();
    };
  }

  // The first event of a connection says that it stands, and what was missed since the last one.
  private read(event: MessageEvent<string>): void {
    this.failures = 0;
    const isResumed = this.last !== "";
    this.last = event.lastEventId;
    const changes: Changes = JSON.parse(event.data);
    if (!this.isOpen) {
      this.isOpen = true;
      // Only an EventSource that connects again says what it has seen.
      this.tell({ kind: "open", resumed: isResumed });
      if (!isResumed) return;
    }
    this.tell({ kind: "changes", changes });
  }

  private lose(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.tell({ kind: "lost" });
  }

  private connectLater(): void {
    const pause = pauses[Math.min(this.failures, pauses.length - 1)];
    this.failures += 1;
    this.last = "";
    this.timer = setTimeout(() => this.connect(), pause);
  }
}
