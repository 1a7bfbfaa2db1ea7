// A browser, pages of ours in it, and the program that writes them.
// The program is that of MILLPOND, the browser that of CHROMIUM; pictures go to SHOTS where that is set.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";

export const root = new URL("../..", import.meta.url).pathname;
const program = resolve(process.env.MILLPOND ?? `${root}target/release/millpond`);
const shots = process.env.SHOTS;
const scratch = mkdtempSync(join(tmpdir(), "millpond-page-"));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  headless: true,
  args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

export async function close() {
  await browser.close();
  rmSync(scratch, { recursive: true });
}

/** Where a file of the tests goes. */
export const file = (name) => join(scratch, name);

export const millpond = (...args) => execFileSync(program, ["-q", ...args], { cwd: root, maxBuffer: 1 << 28, encoding: "utf8" });

/** A recording that lies beside the project and not in it; undefined where it is missing. */
export function shared(name) {
  const path = join(process.env.MILLPOND_SHARED ?? `${root}../shared`, name);
  if (existsSync(path)) return path;
  console.log(`  skipped: ${name} is not there`);
  return undefined;
}

/** Opens a page that was written; whatever it asks of a network, or says against itself, is a fault. `before` runs in it first. */
export async function open(name, args, before) {
  const path = file(`${name}.html`);
  millpond("view", ...args, "-o", path);
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  if (before) await page.addInitScript(before);
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("request", (request) => request.url().startsWith("http") && faults.push(`asked for ${request.url()}`));
  const start = performance.now();
  await page.goto(`file://${path}`);
  await page.waitForFunction(() => window.millpond);
  const opened = performance.now() - start;
  await settled(page);
  return { page, faults, opened, size: statSync(path).size };
}

/** A page without rules of its own: ours loads no pictures. */
export const blank = () => browser.newPage();

/** Waits until what was asked for is drawn. */
export const settled = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

/** The moment that is looked at. */
export const cursor = (page) => page.evaluate(() => window.millpond.app.pane.cursor);

export async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
  await settled(page);
}

/** Pictures in both themes, on a small and on a large screen. */
export async function shoot(page, name) {
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
  await page.emulateMedia({ colorScheme: null });
}
