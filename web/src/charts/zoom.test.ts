import { describe, expect, it } from "vitest";
import { isSame, localZoom, readZoom } from "./zoom";

describe("the zoom of charts", () => {
  it("is read from the address", () => {
    expect(readZoom("120,480.5")).toEqual([120, 480.5]);
    for (const text of ["", "5", "7,7", "9,2", "a,b"]) expect(readZoom(text)).toBeNull();
  });
  it("tells its charts of each change", () => {
    const zoom = localZoom();
    let calls = 0;
    const stop = zoom.subscribe(() => {
      calls += 1;
    });
    zoom.set([1, 2]);
    stop();
    zoom.set(null);
    expect(calls).toBe(1);
    expect(zoom.get()).toBeNull();
  });
  it("is the same by its ends", () => {
    expect(isSame([1, 2], [1, 2])).toBe(true);
    expect(isSame([1, 2], [1, 3])).toBe(false);
    expect(isSame(null, [0, 1])).toBe(false);
    expect(isSame(null, null)).toBe(true);
  });
});
