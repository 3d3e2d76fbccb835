import { expect, it } from "vitest";
import { artifactAddress, mlflowName, previewKind } from "./artifacts";

it("a run's id is the one of MLflow's clients", () => {
  expect(mlflowName("demo/42")).toBe("demo-42");
  expect(mlflowName("my_lab.speech/7")).toBe("my__lab_dspeech-7");
});

it("a path in an address is escaped part by part", () => {
  expect(artifactAddress("demo/1", "plots/a b?.png")).toBe(
    "/api/2.0/mlflow-artifacts/artifacts/0/demo-1/artifacts/plots/a%20b%3F.png",
  );
});

it("small images and texts are shown, and nothing else", () => {
  expect(previewKind("a/loss.PNG", 1000)).toBe("image");
  expect(previewKind("metrics.json", 1000)).toBe("text");
  expect(previewKind("model.safetensors", 1000)).toBeNull();
  expect(previewKind("huge.png", 100 << 20)).toBeNull();
});
