// Joins the questions of one moment into one call: each row of a table asks for its own curve.
interface Waiting<K, V> {
  key: K;
  resolve: (value: V) => void;
  reject: (error: unknown) => void;
}

/** `read` answers in the order of the keys, of which it gets `most` at a time. */
export class Batch<K, V> {
  private waiting: Waiting<K, V>[] = [];

  constructor(
    private readonly read: (keys: K[]) => Promise<V[]>,
    private readonly most: number,
    /** Rows that are drawn together ask within one turn; the pause also joins the next ones. */
    private readonly pause = 20,
  ) {}

  load(key: K): Promise<V> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ key, resolve, reject });
      if (this.waiting.length === 1) setTimeout(() => this.send(), this.pause);
    });
  }

  private send(): void {
    const all = this.waiting;
    this.waiting = [];
    for (let at = 0; at < all.length; at += this.most)
      void this.call(all.slice(at, at + this.most));
  }

  private async call(part: Waiting<K, V>[]): Promise<void> {
    try {
      const values = await this.read(part.map(({ key }) => key));
      part.forEach(({ resolve }, index) => {
        resolve(values[index] as V);
      });
    } catch (error) {
      for (const { reject } of part) reject(error);
    }
  }
}
