// Saved views of runs, and reports: texts that the daemon keeps.
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { get, post } from "./client";
import type { DocumentKind, SaveDocumentRequest } from "./types";

export function documentsQuery(kind: DocumentKind) {
  return queryOptions({
    queryKey: ["documents", kind],
    queryFn: async ({ signal }) =>
      (await get("/api/v1/documents", { query: { kind }, signal })).documents,
    staleTime: 10_000,
  });
}

export function documentQuery(id: string) {
  return queryOptions({
    queryKey: ["document", id],
    queryFn: ({ signal }) =>
      get("/api/v1/documents/{document}", { path: { document: id }, signal }),
  });
}

export function useSaveDocument() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (request: SaveDocumentRequest) => post("/api/v1/documents", request),
    onSuccess: (saved) => {
      client.setQueryData(["document", String(saved.id)], saved);
      void client.invalidateQueries({ queryKey: ["documents", saved.kind] });
    },
  });
}

export function useRemoveDocument() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: number) =>
      post("/api/v1/documents/{document}/remove", undefined as never, {
        path: { document: String(id) },
      }),
    onSuccess: (removed) => {
      client.removeQueries({ queryKey: ["document", String(removed.id)] });
      void client.invalidateQueries({ queryKey: ["documents", removed.kind] });
    },
  });
}
