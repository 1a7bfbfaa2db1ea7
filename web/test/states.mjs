// The state that the page shows is the state of `millpond replay`, which is the allocator's own.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { file, millpond, open, press, root, shared } from "./browser.mjs";

/** The blocks in use in a pickle, by Python's own reader. */
const BLOCKS = `
import json, pickle, sys
with open(sys.argv[1], "rb") as file:
    segments = pickle.load(file)["segments"]
print(json.dumps([
    {"address": str(block["address"]), **{key: block[key] for key in ("size", "requested_size", "state")}}
    for segment in segments if segment["device"] == int(sys.argv[2])
    for block in segment["blocks"] if block["state"] != "inactive"
]))`;

const plain = (segment) => ({ ...segment, address: String(segment.address), stream: String(segment.stream) });

/** Compares a panel at some moments: its segments with those of a replay, its blocks with those of an exported pickle. */
async function compare(page, name, panel, untils, source, device) {
  for (const until of untils) {
    const replayed = JSON.parse(millpond("replay", ...source, ...device, "--until", String(until), "--json"));
    // Address space without memory is not on the map.
    const expected = replayed.segments.filter((segment) => segment.size > 0);
    const shown = await page.evaluate(([until, panel]) => window.millpond.segments(until, panel), [until, panel]);
    assert.deepEqual(shown.map(plain), expected.map(plain), `${name} until ${until}`);
    const state = file("state.pickle");
    millpond("export", ...source, ...device, "--until", String(until), "--to", "pickle", "-o", state);
    const index = device.length > 0 ? device[1] : "0";
    const blocks = JSON.parse(execFileSync("python3", ["-c", BLOCKS, state, index], { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 }));
    const inUse = await page.evaluate(([until, panel]) => window.millpond.blocks(until, panel), [until, panel]);
    assert.deepEqual(inUse, blocks, `${name} until ${until}`);
  }
}

/** Some numbers below `end`, the last among them. */
const some = (end, looks) => Array.from({ length: looks }, (_, look) => Math.floor((end * (look + 1)) / looks) - 1);

/** Entries of a trace at which a request is complete: between its first entry and its last a replay has made all of it or none. */
async function complete(page, panel, looks) {
  const entries = await page.evaluate(() => {
    const { timeline } = window.millpond.app.pane;
    const ends = new Set(["alloc", "free_completed"]);
    return Array.from(timeline.events.at).filter((_, event) => ends.has(timeline.action(event)));
  });
  return some(entries.length, looks).map((at) => entries[at]);
}

/** A snapshot as it was recorded and under other settings, device by device. */
async function snapshot(name, path, devices, conf) {
  const { page, faults } = await open(name, [path, "--conf", conf]);
  for (let device = 0; device < devices; device++) {
    const chosen = ["--device-index", String(device)];
    const untils = await complete(page, 2 * device, 5);
    await compare(page, `${name} as recorded`, 2 * device, untils, [path], chosen);
    await compare(page, `${name} ${conf}`, 2 * device + 1, untils, [path, "--conf", conf], chosen);
    await press(page, "d", "d");
  }
  assert.deepEqual(faults, []);
  await page.close();
}

/** Two devices that do not do the same. */
function twoDevices() {
  const lines = [];
  for (let id = 0; id < 60; id++) {
    const device = Math.floor(id / 3) % 2;
    if (id % 3 === 0) lines.push(`{"op":"device","device":${device}}`);
    lines.push(`{"op":"alloc","id":${id},"size":${(id + 1) * (device + 1) * 300_000},"stream":0}`);
    if (id % 3 === 2) lines.push(`{"op":"free","id":${id - 2}}`);
  }
  const requests = file("two.req.jsonl");
  writeFileSync(requests, `${lines.join("\n")}\n`);
  const path = file("two.pickle");
  millpond("export", requests, "--to", "pickle", "-o", path);
  return path;
}

export const states = {
  async "the state after request N of a scenario is that of a replay"() {
    for (const [name, conf] of [["fsdp-prefetch", ""], ["varlen-training", "expandable_segments:True"], ["shared-card", "max_split_size_mb:64"]]) {
      const source = ["--scenario", name, "--conf", conf];
      const { page, faults } = await open(name, source);
      const requests = await page.evaluate(() => window.millpond.app.pane.timeline.requestCount);
      await compare(page, name, 0, some(requests, 4), source, []);
      assert.deepEqual(faults, []);
      await page.close();
    }
  },

  async "the state after entry N of a snapshot is that of a replay"() {
    await snapshot("train", "examples/train.pickle", 1, "expandable_segments:True");
    await snapshot("oom", "examples/oom.pickle", 1, "max_split_size_mb:20");
  },

  async "and of a snapshot with two devices"() {
    await snapshot("two-devices", twoDevices(), 2, "expandable_segments:True");
  },

  async "and of recordings of PyTorch's own"() {
    for (const name of ["train_expandable", "multi_stream"]) {
      const path = shared(`golden/pickles/${name}.pickle`);
      if (path) await snapshot(name, path, 1, "max_split_size_mb:20");
    }
  },
};
