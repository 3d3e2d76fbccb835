import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// For development: a daemon that runs already, and a token that the proxy adds to each call.
const daemon = process.env.LOCKSTEP_URL ?? "http://127.0.0.1:8000";
const token = process.env.LOCKSTEP_TOKEN;
const proxy = {
  target: daemon,
  changeOrigin: true,
  headers: token ? { Authorization: `Bearer ${token}` } : {},
};

export default defineConfig({
  plugins: [react()],
  // The daemon's content security policy allows no data: URLs, so small assets are files too.
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy: { "/api": proxy, "/login/oidc": proxy } },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
});
