import { expect, it } from "vitest";
import { viewAddress, viewText } from "./savedViews";

it("a saved view is the address of its table, whatever its query has", () => {
  const columns = ["name", "curve:a/b"];
  const view = { query: 'state:failed "out of memory" lr>=1e-3', columns, pinned: 2 };
  const address = new URL(viewAddress(viewText(view)), "http://host");
  expect(address.pathname).toBe("/");
  expect(address.searchParams.get("q")).toBe(view.query);
  expect(address.searchParams.get("columns")).toBe("name,curve:a/b");
  expect(address.searchParams.get("pinned")).toBe("2");
});

it("a view without a query has only its columns", () => {
  expect(viewAddress(viewText({ query: "", columns: ["name"], pinned: 0 }))).toBe(
    "/?columns=name&pinned=0",
  );
  expect(viewAddress("q=x&theme=dark")).toBe("/?q=x");
});
