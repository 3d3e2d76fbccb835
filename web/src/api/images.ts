import { queryOptions } from "@tanstack/react-query";
import { get } from "./client";
import { splitId } from "./queries";
import type { LoggedImage } from "./types";

const imagesMax = 1_000;

/** The first images that the ranks of a run have logged, by name, step, rank and index. */
export function imagesQuery(id: string) {
  return queryOptions({
    queryKey: ["images", id],
    queryFn: ({ signal }) =>
      get("/api/v1/runs/{project}/{number}/images", {
        path: splitId(id),
        query: { limit: imagesMax },
        signal,
      }),
    staleTime: 10_000,
  });
}

export interface ImageStep {
  step: number;
  images: LoggedImage[];
}

/** The steps of each name, in the order of the list. Pure. */
export function imagesByName(images: readonly LoggedImage[]): Map<string, ImageStep[]> {
  const names = new Map<string, ImageStep[]>();
  for (const image of images) {
    const steps = names.get(image.name) ?? [];
    names.set(image.name, steps);
    const last = steps.at(-1);
    if (last?.step === image.step) last.images.push(image);
    else steps.push({ step: image.step, images: [image] });
  }
  return names;
}
