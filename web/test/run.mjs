// The page in a browser: `node test/run.mjs [PART OF A NAME]`.

import { close } from "./browser.mjs";
import { files } from "./files.mjs";
import { looks } from "./looks.mjs";
import { moves } from "./moves.mjs";
import { speed } from "./speed.mjs";
import { states } from "./states.mjs";

const [, , only = ""] = process.argv;
/** A test that waits for what never comes fails, in milliseconds. */
const PATIENCE = 120_000;

function withPatience(test) {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error(`not done after ${PATIENCE / 1000} s`)), PATIENCE).unref());
  return Promise.race([test(), late]);
}

let failed = 0;
for (const [name, test] of Object.entries({ ...looks, ...moves, ...states, ...files, ...speed })) {
  if (!name.includes(only)) continue;
  const start = performance.now();
  try {
    await withPatience(test);
    console.log(`ok: ${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    console.log(`FAILED: ${name}\n${error.stack ?? error}`);
  }
}
await close();
process.exit(failed === 0 ? 0 : 1);
