// What is on the page.

import assert from "node:assert/strict";
import { blank, cursor, millpond, open, press, settled, shoot } from "./browser.mjs";

/** Hides that the graphics processor is imitated, so that the page uses it. */
function pretend() {
  const asked = WebGL2RenderingContext.prototype.getParameter;
  WebGL2RenderingContext.prototype.getParameter = function (name) {
    return name === 37446 || name === this.RENDERER ? "a graphics processor" : asked.call(this, name);
  };
}

export const looks = {
  async "the page renders, without a word from the network"() {
    const { page, faults } = await open("oom", ["examples/oom.pickle"]);
    assert.match(await page.locator(".details h2").textContent(), /OUT OF MEMORY/);
    assert.ok((await page.locator(".row").count()) > 5);
    assert.ok((await page.locator(".legend li").count()) > 1);
    assert.match(await page.locator(".map").getAttribute("aria-label"), /65 segments, 1012 MiB reserved, 1011 MiB in use/);
    await shoot(page, "oom");
    await press(page, "?");
    assert.ok(await page.locator("dialog[open]").isVisible());
    await shoot(page, "help");
    await press(page, "Escape");
    assert.equal(await page.locator("dialog[open]").count(), 0);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "a graphics processor draws what a plain canvas does"() {
    const pictures = [];
    for (const before of [undefined, pretend]) {
      const { page, faults } = await open("drawn", ["examples/pinned.pickle"], before);
      assert.equal(await page.locator(".chart canvas").count(), before ? 2 : 1);
      const taken = [];
      for (const part of [".chart", ".map"]) taken.push((await page.locator(part).screenshot()).toString("base64"));
      pictures.push(taken);
      assert.deepEqual(faults, []);
      await page.close();
    }
    const page = await blank();
    const differ = await page.evaluate(async (pictures) => {
      const pixels = async (png) => {
        const image = new Image();
        image.src = `data:image/png;base64,${png}`;
        await image.decode();
        const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
        context.drawImage(image, 0, 0);
        return context.getImageData(0, 0, image.width, image.height).data;
      };
      const shares = [];
      for (const part of [0, 1]) {
        const [a, b] = [await pixels(pictures[0][part]), await pixels(pictures[1][part])];
        let far = 0;
        for (let at = 0; at < a.length; at += 4) far += Math.abs(a[at] - b[at]) + Math.abs(a[at + 1] - b[at + 1]) > 60 ? 1 : 0;
        shares.push([a.length === b.length, far / (a.length / 4)]);
      }
      return shares;
    }, pictures);
    for (const [alike, share] of differ) {
      assert.ok(alike);
      // Edges between pixels and the smoothing of letters.
      assert.ok(share < 0.02, `${(100 * share).toFixed(2)} % of the pixels differ`);
    }
    await page.close();
  },

  async "the verdict is the doctor's, and leads to its place"() {
    const { page, faults } = await open("pinned", ["examples/pinned.pickle"]);
    const [device] = JSON.parse(millpond("doctor", "examples/pinned.pickle", "--json")).devices;
    const first = millpond("doctor", "examples/pinned.pickle").split("\n")[0];
    const verdict = page.locator(".verdict");
    assert.ok(first.endsWith(await verdict.locator("b").textContent()), first);
    await shoot(page, "pinned");
    await press(page, "Home");
    assert.equal(await cursor(page), 0);
    await verdict.locator("button").click();
    await settled(page);
    const [at, action] = await page.evaluate(() => {
      const { timeline, event } = window.millpond.app.pane;
      return [timeline.events.at[event], timeline.action(event)];
    });
    assert.deepEqual([at, action], [device.moment.entry, "oom"]);
    await press(page, "Home", "v");
    assert.notEqual(await cursor(page), 0);
    await verdict.locator("summary").click();
    const marks = await verdict.locator("li").allTextContents();
    for (const block of device.verdict.relief.blocks) {
      assert.ok(marks.some((mark) => mark.endsWith(`0x${block.address.toString(16)}`)), marks.join());
    }
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "two settings stand side by side"() {
    const { page, faults } = await open("two", ["--scenario", "varlen-training", "--conf", "", "--conf", "expandable_segments:True"]);
    assert.equal(await page.locator(".pane").count(), 2);
    const titles = await page.locator(".pane h2").allTextContents();
    assert.deepEqual(titles, ["GPU 0 · replay · default settings", "GPU 0 · replay · expandable_segments:True"]);
    // Both are at the same request, wherever that is among their events.
    for (const key of ["End", "p", "PageUp", "Shift+ArrowLeft"]) {
      await press(page, key);
      const requests = await page.evaluate(() => window.millpond.app.panesAt());
      assert.equal(requests[0], requests[1], key);
    }
    await shoot(page, "two");
    await press(page, "c");
    assert.equal(await page.locator(".pane").count(), 1);
    assert.deepEqual(faults, []);
    await page.close();
  },
};
