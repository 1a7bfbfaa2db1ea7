// How fast it is. Printed, and no figure decides a test: machines differ, and are busy with other things.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { file, open, shoot } from "./browser.mjs";

/** Requests of which a million events come: blocks that live for a while, in no order. */
function million() {
  const lines = [];
  const live = [];
  let seed = 1;
  const random = (below) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * below);
  };
  for (let id = 0; id < 335_000; id++) {
    const size = 512 * (1 + random(random(8) === 0 ? 40_000 : 800));
    lines.push(`{"op":"alloc","id":${id},"size":${size},"stream":0}`);
    live.push(id);
    if (live.length > 600 + 500 * Math.sin(id / 20_000)) {
      const [gone] = live.splice(random(live.length), 1);
      lines.push(`{"op":"free","id":${gone}}`);
    }
  }
  for (const id of live) lines.push(`{"op":"free","id":${id}}`);
  return `${lines.join("\n")}\n`;
}

/** Opens a page and scrubs over it on screens of two sizes. */
async function time(name, source) {
  const { page, faults, opened, size } = await open(name, source);
  const events = await page.evaluate(() => window.millpond.app.pane.timeline.end);
  console.log(`  ${events} events, ${(size / 1e6).toFixed(1)} MB, open in ${(opened / 1000).toFixed(2)} s (asked for: 3 s)`);
  for (const [width, height] of [[1280, 800], [2560, 1300]]) {
    await page.setViewportSize({ width, height });
    await page.waitForTimeout(300);
    const { work, between } = await page.evaluate(() => window.millpond.measure(120));
    console.log(`  scrubbing at ${width} px, ms: work ${JSON.stringify(work)}, from frame to frame ${JSON.stringify(between)}`);
  }
  await shoot(page, name);
  assert.deepEqual(faults, []);
  await page.close();
  return events;
}

export const speed = {
  async "a million events"() {
    const requests = file("million.req.jsonl");
    writeFileSync(requests, million());
    assert.ok((await time("million", [requests])) >= 1_000_000);
  },

  /** SNAPSHOT names a large one, such as the example long_snapshot of crates/snapshot writes. */
  async "the snapshot that was named"() {
    const path = process.env.SNAPSHOT;
    if (!path) return console.log("  none was: SNAPSHOT=FILE");
    await time("named", [path]);
  },
};
