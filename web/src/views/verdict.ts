// What the doctor found, with the way to its place.

import { button, element } from "./dom";
import type { Pane } from "./pane";

/** The verdict of a timeline, if it has one. */
export function verdictOf(pane: Pane, seek: (pane: Pane, cursor: number) => void): HTMLElement | undefined {
  const { verdict } = pane.timeline;
  if (!verdict) return undefined;
  const more = element("details", {}, element("summary", { textContent: "why" }));
  more.append(...verdict.text.map((text) => element("p", { textContent: text })));
  if (verdict.marks.length > 0) {
    more.append(element("ul", {}, ...verdict.marks.map((mark) => element("li", { textContent: `${mark.label} at ${mark.addr}` }))));
  }
  const go = button("Show the place (V)", "go to the moment", () => seek(pane, pane.timeline.cursorAfter(verdict.at)));
  const made = element("aside", { className: "verdict" }, element("b", { textContent: verdict.title }), go);
  if (more.childElementCount > 1) made.append(more);
  made.setAttribute("aria-label", `verdict for ${pane.title}`);
  return made;
}
