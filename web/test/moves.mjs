// Moving about by mouse and by keys.

import assert from "node:assert/strict";
import { cursor, open, press, settled } from "./browser.mjs";

export const moves = {
  async "scrubbing by mouse changes the state"() {
    const { page, faults } = await open("scrub", ["examples/train.pickle"]);
    const state = () => page.evaluate(() => [window.millpond.app.pane.cursor, ...[".details", ".map"].map((part) => document.querySelector(part).textContent + document.querySelector(part).ariaLabel)]);
    const chart = await page.locator(".chart").boundingBox();
    await page.mouse.move(chart.x + 200, chart.y + 60);
    await page.mouse.down();
    await settled(page);
    const first = await state();
    await page.mouse.move(chart.x + 500, chart.y + 60, { steps: 5 });
    await settled(page);
    const second = await state();
    await page.mouse.up();
    assert.ok(second[0] > first[0]);
    assert.notEqual(second[1], first[1]);
    assert.notEqual(second[2], first[2]);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "every key does what the help says"() {
    const { page, faults } = await open("keys", ["examples/oom.pickle", "--conf", "expandable_segments:True"]);
    const app = (what) => page.evaluate((what) => new Function("app", `return ${what}`)(window.millpond.app), what);
    await press(page, "Home");
    assert.equal(await cursor(page), 0);
    await press(page, "ArrowRight", "ArrowDown", "ArrowRight", "ArrowLeft");
    assert.equal(await cursor(page), 2);
    await press(page, "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowLeft");
    assert.equal(await cursor(page), 102);
    await press(page, "PageDown");
    assert.ok((await cursor(page)) > 102);
    await press(page, "PageUp");
    assert.equal(await cursor(page), 102);
    await press(page, "End");
    assert.equal(await cursor(page), await app("app.pane.timeline.end"));
    await press(page, "p");
    assert.equal(await cursor(page), await app("app.pane.peak"));
    await press(page, "Home", "o");
    assert.equal(await cursor(page), (await app("app.pane.ooms[0]")) + 1);
    await press(page, "Home", "Shift+O");
    assert.equal(await cursor(page), (await app("app.pane.ooms.at(-1)")) + 1);
    await press(page, "Home", "v");
    assert.equal(await app("app.pane.timeline.action(app.pane.event)"), "oom");

    const whole = await app("app.span");
    await press(page, "+");
    assert.ok((await app("app.span[1] - app.span[0]")) < whole[1] - whole[0]);
    await press(page, "-", "0");
    assert.deepEqual(await app("app.span"), whole);

    const figures = () => page.locator(".map").first().screenshot();
    const before = await figures();
    await press(page, "]");
    assert.notDeepEqual(await figures(), before);
    await press(page, "[");
    const legend = () => page.locator(".legend").first().textContent();
    const colours = await legend();
    await press(page, "g");
    assert.notEqual(await legend(), colours);

    assert.equal(await page.locator(".pane").count(), 2);
    await press(page, "c");
    assert.equal(await page.locator(".pane").count(), 1);
    const title = await page.locator(".pane h2").textContent();
    await press(page, "d");
    assert.notEqual(await page.locator(".pane h2").textContent(), title);

    const theme = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const ground = await theme();
    await press(page, "t");
    assert.notEqual(await theme(), ground);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "the end of the list stays in sight when the window grows"() {
    const { page, faults } = await open("grows", ["examples/train.pickle"]);
    await press(page, "End");
    await page.setViewportSize({ width: 2560, height: 1300 });
    await settled(page);
    assert.equal(await page.locator(".row[aria-selected=true] .number").textContent(), "1,131");
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "a search finds, and N goes on"() {
    const { page, faults } = await open("search", ["examples/train.pickle"]);
    await press(page, "Home", "/");
    await page.keyboard.type(">1M alloc");
    await press(page, "Enter");
    const here = () =>
      page.evaluate(() => {
        const { timeline, event, cursor } = window.millpond.app.pane;
        return { action: timeline.action(event), bytes: timeline.bytesOf(event), cursor };
      });
    const first = await here();
    assert.match(first.action, /alloc/);
    assert.ok(first.bytes >= 1 << 20);
    await press(page, "Escape", "n");
    const second = await here();
    assert.ok(second.cursor > first.cursor);
    await press(page, "Shift+N");
    // Escape has emptied the search, so the one before is the event before.
    assert.equal((await here()).cursor, second.cursor - 1);
    assert.deepEqual(faults, []);
    await page.close();
  },
};
