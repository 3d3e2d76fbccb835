// Fails the build if the script that a first load needs is over its limit.
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const limit = 300_000;
const folder = new URL("../dist/assets/", import.meta.url);
let total = 0;
for (const name of readdirSync(folder)) {
  if (!name.endsWith(".js")) continue;
  const bytes = gzipSync(readFileSync(new URL(name, folder)), { level: 9 }).length;
  total += bytes;
  console.log(`${name}: ${bytes} bytes compressed`);
}
console.log(`script, compressed: ${total} bytes; limit ${limit}`);
if (total > limit) {
  console.error("the script is over its limit; load a part of it later, or remove a dependency");
  process.exit(1);
}
