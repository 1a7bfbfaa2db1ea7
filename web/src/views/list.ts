// The events, of which only those in sight are on the page.

import { search, stackOf } from "../data/search";
import { shownShort, type Stacks } from "../data/stacks";
import { upperBound } from "../data/timeline";
import { bytes, count, plain } from "../words";
import { element } from "./dom";
import type { Pane } from "./pane";

const ROW = 26;
/** Browsers do not know heights far beyond this; a longer list scrolls in proportion. */
const TALLEST = 8_000_000;

export class EventList {
  readonly root: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly said: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly spacer: HTMLElement;
  private readonly rows: HTMLElement;
  private pane: Pane | undefined;
  private found: Uint32Array = new Uint32Array(0);
  private timer = 0;
  private followed = -1;
  // Kept, for whoever asks the browser between two changes has it lay the page out again.
  private top = 0;
  private tall = 0;
  private height = 0;

  constructor(private readonly stacks: Stacks, private readonly seek: (pane: Pane, cursor: number) => void) {
    this.input = element("input", { type: "search", placeholder: "search: oom  >64M  0x7f…  model.py", spellcheck: false });
    this.input.setAttribute("aria-label", "search events");
    this.said = element("span", { className: "said" });
    this.said.setAttribute("role", "status");
    this.spacer = element("div", { className: "spacer" });
    this.rows = element("div", { className: "rows" });
    this.scroller = element("div", { className: "list", tabIndex: 0 }, this.spacer, this.rows);
    this.scroller.setAttribute("role", "listbox");
    this.scroller.setAttribute("aria-label", "events");
    this.root = element("section", { className: "events" }, element("h2", { textContent: "Events" }), element("div", { className: "search" }, this.input, this.said), this.scroller);
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.look(), 120);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        this.look();
        this.step(event.shiftKey ? -1 : 1);
      }
      if (event.key === "Escape") {
        this.input.value = "";
        this.look();
        this.scroller.focus();
      }
    });
    this.scroller.addEventListener("scroll", () => {
      this.top = this.scroller.scrollTop;
      this.fill();
    });
    new ResizeObserver(() => {
      this.height = this.scroller.clientHeight;
      this.followed = -1;
      this.follow();
    }).observe(this.scroller);
    this.rows.addEventListener("click", (event) => {
      const row = (event.target as Element).closest<HTMLElement>("[data-event]");
      if (row && this.pane) this.seek(this.pane, Number(row.dataset["event"]) + 1);
    });
  }

  show(pane: Pane): void {
    if (this.pane === pane) return;
    this.pane = pane;
    this.look();
  }

  /** The next event that was found, or the one before. */
  step(by: 1 | -1): void {
    if (!this.pane || this.found.length === 0) return;
    const event = this.pane.cursor - 1;
    const after = upperBound(this.found, event);
    const here = after > 0 && this.found[after - 1] === event ? after - 1 : after - 0.5;
    const next = by > 0 ? Math.floor(here + 1) : Math.ceil(here - 1);
    const at = (next + this.found.length) % this.found.length;
    this.seek(this.pane, this.found[at] + 1);
  }

  /** Brings the current event into sight. */
  follow(): void {
    if (!this.pane || this.pane.cursor === this.followed) return this.fill();
    this.followed = this.pane.cursor;
    const at = Math.max(0, upperBound(this.found, this.pane.cursor - 1) - 1);
    const shown = this.first();
    const room = Math.max(1, Math.floor(this.height / ROW) - 1);
    if (at < shown || at >= shown + room) {
      const most = Math.max(1, this.found.length - room);
      const span = Math.max(0, this.tall - this.height);
      this.top = Math.min(span, (Math.max(0, at - Math.floor(room / 2)) / most) * span);
      this.scroller.scrollTop = this.top;
    }
    this.fill();
  }

  private look(): void {
    if (!this.pane) return;
    const { timeline } = this.pane;
    this.found = search(timeline, this.stacks, this.input.value);
    this.said.textContent = this.input.value.trim() === "" ? count(timeline.end) : `${count(this.found.length)} of ${count(timeline.end)}`;
    this.tall = Math.min(TALLEST, this.found.length * ROW);
    this.spacer.style.height = `${this.tall}px`;
    this.followed = -1;
    this.follow();
  }

  private first(): number {
    const room = Math.max(1, Math.floor(this.height / ROW) - 1);
    const span = Math.max(1, this.tall - this.height);
    // A taller window has less to scroll, and the browser says so later.
    const share = Math.min(1, this.top / span);
    return Math.round(share * Math.max(0, this.found.length - room));
  }

  private fill(): void {
    const { pane } = this;
    if (!pane) return;
    const { timeline } = pane;
    const first = this.first();
    const room = Math.ceil(this.height / ROW);
    const last = Math.min(this.found.length, first + room);
    while (this.rows.children.length < last - first) this.rows.append(row());
    while (this.rows.children.length > last - first) this.rows.lastElementChild?.remove();
    this.scroller.removeAttribute("aria-activedescendant");
    for (let at = first; at < last; at++) {
      const event = this.found[at];
      const line = this.rows.children[at - first] as HTMLElement;
      const [number, action, size, frame] = line.children;
      const name = timeline.action(event);
      line.id = `event-${event}`;
      line.dataset["event"] = String(event);
      line.dataset["action"] = name;
      line.setAttribute("aria-selected", String(event === pane.cursor - 1));
      line.setAttribute("aria-setsize", String(this.found.length));
      line.setAttribute("aria-posinset", String(at + 1));
      if (event === pane.cursor - 1) this.scroller.setAttribute("aria-activedescendant", line.id);
      number.textContent = count(timeline.events.at[event]);
      action.textContent = plain(name);
      size.textContent = bytes(timeline.bytesOf(event));
      const id = this.stacks.ownFrame(stackOf(timeline, event));
      frame.textContent = id < 0 ? "" : shownShort(this.stacks.frames[id]);
    }
  }
}

function row(): HTMLElement {
  const cells = ["number", "action", "size", "frame"].map((className) => element("span", { className }));
  const made = element("div", { className: "row" }, ...cells);
  made.setAttribute("role", "option");
  return made;
}
