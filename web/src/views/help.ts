// The keys, in a dialogue that any of the usual ways closes.

import { button, element } from "./dom";

const KEYS: [string, string][] = [
  ["← →", "one event back, on"],
  ["Shift ← →", "100 events"],
  ["PgUp PgDn", "a tenth of what is shown"],
  ["Home End", "the start, the end"],
  ["P", "the peak of memory in use"],
  ["O  Shift O", "the next out-of-memory error, the one before"],
  ["V", "the place of the verdict"],
  ["/", "search events"],
  ["N  Shift N", "the next event found, the one before"],
  ["+ −  0", "zoom in time; all of it"],
  ["[ ]", "smaller and larger segments"],
  ["G", "colour by something else"],
  ["D", "the next device or run"],
  ["C", "another run beside it"],
  ["T", "light or dark"],
  ["?", "this list"],
];

export class Help {
  readonly root: HTMLDialogElement;

  constructor() {
    const rows = KEYS.flatMap(([keys, what]) => [
      element("dt", {}, ...keys.split(" ").filter((key) => key !== "").map((key) => element("kbd", { textContent: key }))),
      element("dd", { textContent: what }),
    ]);
    const mouse =
      "Drag over the chart to move in time, Shift drag to pan, turn the wheel to zoom, click twice for all of it. " +
      "Point at a block to see what it is, click to keep it. Drop a file of columns on the page to open it.";
    this.root = element("dialog", { className: "help" }, element("h2", { textContent: "Keys" }), element("dl", {}, ...rows), element("p", { textContent: mouse }), button("Close", "close (Esc)", () => this.root.close()));
    this.root.setAttribute("aria-label", "keys");
    this.root.addEventListener("click", (event) => {
      if (event.target === this.root) this.root.close();
    });
  }

  toggle(): void {
    if (this.root.open) this.root.close();
    else this.root.showModal();
  }
}
