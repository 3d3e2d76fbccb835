import { expect, it } from "vitest";
import { readCode, safePath } from "./code";

it("reads the code and the path of a link", () => {
  expect(readCode("code=abc&next=%2Fruns%2Fdemo%2F1")).toEqual({
    code: "abc",
    next: "/runs/demo/1",
  });
  expect(readCode("code=abc")).toEqual({ code: "abc", next: "/" });
  expect(readCode("next=%2Fx")).toBeNull();
});

it("leads to no other host", () => {
  for (const path of ["//evil.example", "/\\evil.example", "https://evil.example", "", null]) {
    expect(safePath(path)).toBe("/");
  }
});
