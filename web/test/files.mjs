// Files of columns that are dropped on the page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { file, millpond, open } from "./browser.mjs";

/** Drops bytes on the page, as a person drops a file. */
const drop = (page, name, bytes) =>
  page.evaluate(
    ([name, bytes]) => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.fromBase64?.(bytes) ?? Uint8Array.from(atob(bytes), (byte) => byte.charCodeAt(0))], name));
      document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
    },
    [name, bytes.toString("base64")],
  );

export const files = {
  async "a file of columns opens when it is dropped"() {
    const columns = file("out.mpv");
    millpond("view", "examples/train.pickle", "-o", columns);
    const { page, faults } = await open("drop", ["examples/oom.pickle"]);
    await drop(page, "out.mpv", readFileSync(columns));
    await page.waitForFunction(() => document.title.startsWith("examples/train.pickle"));
    assert.equal(await page.evaluate(() => window.millpond.app.pane.timeline.end), 1132);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "what is no file of columns is refused in a sentence"() {
    const columns = file("cut.mpv");
    millpond("view", "examples/train.pickle", "-o", columns);
    const whole = readFileSync(columns);
    for (const [bytes, said] of [
      [Buffer.from("no columns"), /not a file of columns.*millpond view/],
      [whole.subarray(0, whole.length / 2), /cut off or damaged/],
    ]) {
      const { page, faults } = await open("refused", ["examples/oom.pickle"]);
      await drop(page, "bad.mpv", bytes);
      await page.waitForSelector(".welcome .bad");
      assert.match(await page.locator(".bad").textContent(), said);
      assert.ok(await page.locator("input[type=file]").isVisible());
      assert.deepEqual(faults, []);
      await page.close();
    }
  },
};
