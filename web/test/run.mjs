// The page in a browser: it renders, scrubbing changes the state, the state is that of `millpond replay`, and how fast it is.
// Takes the program in MILLPOND, a browser in CHROMIUM; writes pictures to SHOTS where that is set.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const root = new URL("../..", import.meta.url).pathname;
const program = process.env.MILLPOND ?? `${root}target/debug/millpond`;
const folder = mkdtempSync(join(tmpdir(), "millpond-page-"));
const shots = process.env.SHOTS;
const profile = mkdtempSync(join(tmpdir(), "millpond-browser-"));

const millpond = (...args) => execFileSync(program, ["-q", ...args], { cwd: root, maxBuffer: 1 << 28, encoding: "utf8" });

const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  viewport: { width: 1280, height: 800 },
  args: ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
});

/** Opens a page that was written; whatever it asks of a network, or says against itself, is a fault. */
async function open(name, ...args) {
  const file = join(folder, `${name}.html`);
  millpond("view", ...args, "-o", file);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("request", (request) => request.url().startsWith("http") && faults.push(`asked for ${request.url()}`));
  const start = performance.now();
  await page.goto(`file://${file}`);
  await page.waitForFunction(() => window.millpond);
  const opened = performance.now() - start;
  return { page, faults, opened, size: statSync(file).size };
}

async function shoot(page, name) {
  if (!shots) return;
  for (const width of [1280, 2560]) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize({ width, height: width === 1280 ? 800 : 1300 });
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(250);
      await page.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`) });
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

const tests = {
  async "the page renders, without a word from the network"() {
    const { page, faults } = await open("oom", "examples/oom.pickle");
    assert.match(await page.locator(".details h2").textContent(), /OUT OF MEMORY/);
    assert.ok((await page.locator(".row").count()) > 5);
    assert.ok((await page.locator(".legend li").count()) > 1);
    await shoot(page, "oom");
    await page.keyboard.press("?");
    assert.ok(await page.locator("dialog[open]").isVisible());
    if (shots) await page.screenshot({ path: join(shots, "help.png") });
    await page.keyboard.press("Escape");
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "scrubbing by mouse and by keys changes the state"() {
    const { page, faults } = await open("scrub", "examples/train.pickle");
    const state = () => page.evaluate(() => [window.millpond.app.pane.cursor, document.querySelector(".details").textContent]);
    const chart = await page.locator(".chart").boundingBox();
    await page.mouse.move(chart.x + 200, chart.y + 60);
    await page.mouse.down();
    await page.waitForTimeout(50);
    const first = await state();
    await page.mouse.move(chart.x + 500, chart.y + 60, { steps: 5 });
    await page.waitForTimeout(50);
    const second = await state();
    await page.mouse.up();
    assert.ok(second[0] > first[0]);
    assert.notEqual(second[1], first[1]);
    await page.keyboard.press("ArrowRight");
    await page.waitForTimeout(50);
    assert.equal((await state())[0], second[0] + 1);
    await page.keyboard.press("Home");
    assert.equal((await state())[0], 0);
    await page.keyboard.press("/");
    await page.keyboard.type(">1M alloc");
    await page.keyboard.press("Enter");
    await page.waitForTimeout(200);
    const found = await page.evaluate(() => {
      const { timeline, event } = window.millpond.app.pane;
      return [timeline.action(event), timeline.bytesOf(event)];
    });
    assert.match(found[0], /alloc/);
    assert.ok(found[1] >= 1 << 20);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "the state after request N is that of millpond replay --until N --json"() {
    for (const [name, conf] of [["fsdp-prefetch", ""], ["varlen-training", "expandable_segments:True"], ["shared-card", "max_split_size_mb:64"]]) {
      const { page, faults } = await open(name, "--scenario", name, "--conf", conf);
      const requests = await page.evaluate(() => window.millpond.app.pane.timeline.requestCount);
      for (let look = 1; look <= 8; look++) {
        const until = Math.floor((requests * look) / 8) - 1;
        const replayed = JSON.parse(millpond("replay", "--scenario", name, "--conf", conf, "--until", String(until), "--json"));
        const expected = replayed.segments.filter((segment) => segment.size > 0);
        const shown = await page.evaluate((until) => window.millpond.segments(until), until);
        const plain = (segment) => ({ ...segment, address: String(segment.address), stream: String(segment.stream) });
        assert.deepEqual(shown.map(plain), expected.map(plain), `${name} until ${until}`);
      }
      assert.deepEqual(faults, []);
      await page.close();
    }
  },

  async "two settings stand side by side"() {
    const { page, faults } = await open("two", "--scenario", "varlen-training", "--conf", "", "--conf", "expandable_segments:True");
    assert.equal(await page.locator(".pane").count(), 2);
    await page.keyboard.press("End");
    await page.waitForTimeout(100);
    await shoot(page, "two");
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "a file of columns opens when it is chosen"() {
    const file = join(folder, "out.mpv");
    millpond("view", "examples/train.pickle", "-o", file);
    const { page, faults } = await open("drop", "examples/oom.pickle");
    await page.evaluate((bytes) => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(bytes)], "out.mpv"));
      document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
    }, Array.from(readFileSync(file)));
    await page.waitForFunction(() => document.title.startsWith("examples/train.pickle"));
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "a million events open in three seconds"() {
    const file = join(folder, "million.req.jsonl");
    writeFileSync(file, million());
    const { page, faults, opened, size } = await open("million", file);
    const events = await page.evaluate(() => window.millpond.app.pane.timeline.end);
    assert.ok(events >= 1_000_000, `${events} events`);
    console.log(`  ${events} events, ${(size / 1e6).toFixed(1)} MB, open in ${(opened / 1000).toFixed(2)} s`);
    for (const [width, height] of [[1280, 800], [2560, 1300]]) {
      await page.setViewportSize({ width, height });
      await page.waitForTimeout(300);
      const measured = await page.evaluate(() => window.millpond.measure(120));
      console.log(`  scrubbing at ${width} px, milliseconds: ${JSON.stringify(measured)}`);
    }
    await shoot(page, "million");
    assert.ok(opened < 3000, `${opened} ms`);
    assert.deepEqual(faults, []);
    await page.close();
  },
};

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

let failed = 0;
const only = process.argv[2];
for (const [name, test] of Object.entries(tests)) {
  if (only && !name.includes(only)) continue;
  try {
    await test();
    console.log(`ok: ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED: ${name}\n${error.stack ?? error}`);
  }
}
await context.close();
rmSync(folder, { recursive: true });
rmSync(profile, { recursive: true });
process.exit(failed === 0 ? 0 : 1);
