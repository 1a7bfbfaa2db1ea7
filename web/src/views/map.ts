// Segments × addresses at a moment: each segment a strip, its blocks in the colours of their layers.

import { Picture } from "../draw/picture";
import { colors, layerColor } from "../draw/theme";
import { bytes, count, share } from "../words";
import { element } from "./dom";
import type { Pane } from "./pane";
import { shown, type Stacks } from "../data/stacks";

const ROW = 22;
const STRIP = 17;
const HEADING = 24;
const GAP = 4;
const LEFT = 10;
/** A piece as wide as this has its size written on it. */
const LABELLED = 54;

/** A held range where it is drawn: `at` pixels into the strip of its pool, which is broken into rows. */
interface Placed {
  segment: number;
  addr: number;
  size: number;
  top: number;
  at: number;
  pixels: number;
}

export class SegmentMap {
  readonly root: HTMLElement;
  private readonly picture = new Picture("sheet");
  private readonly spacer: HTMLElement;
  private readonly tip: HTMLElement;
  private scroll = 0;
  private spaced = 0;
  private width = 0;
  private height = 0;
  private strip = 1;
  private placed: Placed[] = [];
  private bySegment = new Map<number, Placed[]>();
  /** Bytes of a pixel: of large pools, of small ones. */
  private scale: Record<"large" | "small", number> = { large: 1, small: 1 };
  private zoomed = 0;

  constructor(
    private readonly pane: Pane,
    private readonly stacks: Stacks,
    private readonly picked: () => void,
  ) {
    this.tip = element("div", { className: "tip", hidden: true });
    this.spacer = element("div", { className: "spacer" });
    const window = element("div", { className: "window" }, ...this.picture.canvases, this.tip);
    this.root = element("div", { className: "map", tabIndex: 0 }, this.spacer, window);
    this.root.setAttribute("role", "img");
    this.root.addEventListener("scroll", () => {
      this.scroll = this.root.scrollTop;
      this.draw();
    });
    this.listen();
  }

  resize(): void {
    this.width = this.root.clientWidth;
    this.height = this.root.clientHeight;
    this.strip = Math.max(50, this.width - 2 * LEFT);
    const { timeline } = this.pane;
    const most = timeline.reserved.reduce((a, b) => Math.max(a, b), 1);
    const rows = Math.max(1, Math.floor(this.height / ROW) - 3);
    const fit = powerOfTwo(most / (this.strip * rows * 0.8));
    this.scale = { large: fit, small: Math.min(fit, 1 << 14) };
  }

  /** Twice as large, or half. */
  zoom(by: number): void {
    this.zoomed = Math.max(-3, Math.min(8, this.zoomed + by));
    this.draw();
  }

  draw(): void {
    this.place();
    const { pane, picture, scroll } = this;
    const { timeline, cursor } = pane;
    const theme = colors();
    picture.begin(this.width, this.height);
    for (const range of this.placed) this.pieces(range, range.addr, range.size, scroll, (x, y, w) => picture.rect(x, y, w, STRIP, theme.free));

    const { addr, size, segment, freed } = timeline.blocks;
    const tints = pane.layers.layers.map((layer) => layerColor(layer.color));
    const labels: [number, number, number][] = [];
    for (const block of timeline.blocksAt(cursor)) {
      const range = this.rangeOf(segment[block] - 1, addr[block]);
      if (!range) continue;
      const tint = tints[pane.layers.ofBlock[block]];
      this.pieces(range, addr[block], size[block], scroll, (x, y, w) => {
        picture.rect(x, y, w > 3 ? w - 1 : Math.max(w, 1), STRIP, tint, freed[block] <= cursor);
        if (w >= LABELLED) labels.push([block, x, y]);
      });
    }
    const context = picture.over();
    this.drawHeadings(context, scroll);
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = theme.label;
    for (const [block, x, y] of labels) context.fillText(bytes(size[block]), x + 5, y + STRIP / 2 + 0.5);
    this.drawOutlines(context, scroll);
    const held = `${count(this.bySegment.size)} segments, ${bytes(timeline.reserved[cursor])} reserved`;
    this.root.setAttribute("aria-label", `${held}, ${bytes(timeline.active[cursor])} in use`);
  }

  /** Puts what is held at the cursor in its place. */
  private place(): void {
    const { timeline, cursor } = this.pane;
    const { held, segments } = timeline;
    const order = Array.from(timeline.heldAt(cursor));
    order.sort((a, b) => segments.pool[held.segment[a]] - segments.pool[held.segment[b]] || held.segment[a] - held.segment[b] || held.addr[a] - held.addr[b]);
    this.placed = [];
    this.bySegment.clear();
    this.headings = [];
    let top = 0;
    let at = 0;
    let pool = -1;
    for (const index of order) {
      const segment = held.segment[index];
      const { [index]: addr } = held.addr;
      const size = held.size[index];
      const before = this.placed[this.placed.length - 1];
      const touches = before !== undefined && before.segment === segment && before.addr + before.size === addr;
      const scale = this.scale[timeline.pools[segments.pool[segment]].class] / 2 ** this.zoomed;
      if (segments.pool[segment] !== pool) {
        if (before) top = this.bottom(before);
        pool = segments.pool[segment];
        this.headings.push({ pool, top, scale, segments: 0, held: 0 });
        top += HEADING;
        at = 0;
      }
      const heading = this.headings[this.headings.length - 1];
      heading.held += size;
      if (before === undefined || before.segment !== segment) heading.segments++;
      if (touches && before) {
        const pixels = Math.max(4, (before.size + size) / scale);
        at += pixels - before.pixels;
        before.size += size;
        before.pixels = pixels;
        continue;
      }
      const pixels = Math.max(4, size / scale);
      const into = at % this.strip;
      if (into > 0 && into + pixels > this.strip && pixels <= this.strip) at += this.strip - into;
      const range = { segment, addr, size, top, at, pixels };
      this.placed.push(range);
      const known = this.bySegment.get(segment);
      if (known) known.push(range);
      else this.bySegment.set(segment, [range]);
      at += pixels + GAP;
    }
    const last = this.placed[this.placed.length - 1];
    const height = last ? this.bottom(last) + 4 : 0;
    // What is out of sight stays as it is, so that the page does not jump when memory goes.
    const spaced = Math.max(height, Math.min(this.scroll + this.height, this.spaced));
    if (spaced === this.spaced) return;
    this.spaced = spaced;
    this.spacer.style.height = `${spaced}px`;
  }

  private headings: { pool: number; top: number; scale: number; segments: number; held: number }[] = [];

  private bottom(range: Placed): number {
    return range.top + (Math.floor((range.at + range.pixels - 0.01) / this.strip) + 1) * ROW + 4;
  }

  private rangeOf(segment: number, addr: number): Placed | undefined {
    const ranges = this.bySegment.get(segment);
    if (!ranges) return undefined;
    if (ranges.length === 1) return ranges[0];
    return ranges.findLast((range) => range.addr <= addr);
  }

  /** The visible pieces of bytes of a range. */
  private pieces(range: Placed, addr: number, size: number, scroll: number, piece: (x: number, y: number, w: number) => void): void {
    const scale = range.pixels / range.size;
    let from = range.at + (addr - range.addr) * scale;
    const to = from + size * scale;
    while (from < to) {
      const row = Math.floor(from / this.strip + 1e-9);
      const end = Math.min(to, (row + 1) * this.strip);
      const y = range.top + row * ROW - scroll;
      if (y + STRIP > 0 && y < this.height) piece(LEFT + from - row * this.strip, y, end - from);
      if (end <= from) break;
      from = end;
    }
  }

  private drawHeadings(context: CanvasRenderingContext2D, scroll: number): void {
    const { timeline, cursor } = this.pane;
    const theme = colors();
    const used = new Map<number, number>();
    for (const block of timeline.blocksAt(cursor)) {
      const segment = timeline.blocks.segment[block];
      if (segment === 0) continue;
      const pool = timeline.segments.pool[segment - 1];
      used.set(pool, (used.get(pool) ?? 0) + timeline.blocks.size[block]);
    }
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const { pool, top, scale, segments, held } of this.headings) {
      const y = top - scroll + HEADING / 2;
      if (y < -HEADING || y > this.height + HEADING) continue;
      context.font = "600 12px system-ui, sans-serif";
      context.fillStyle = theme.text;
      const label = timeline.poolLabel(pool);
      context.fillText(label, LEFT, y);
      const after = LEFT + context.measureText(label).width + 12;
      context.font = "12px system-ui, sans-serif";
      context.fillStyle = theme.faint;
      const figures = `${count(segments)} ${segments === 1 ? "segment" : "segments"}, ${bytes(held)}, ${share(used.get(pool) ?? 0, held)} in use`;
      context.fillText(figures, after, y);
      const ruler = `${bytes(scale * 100)} = 100 px`;
      if (after + context.measureText(figures).width + 130 > this.width) continue;
      context.textAlign = "right";
      context.fillText(ruler, this.width - LEFT, y);
      context.textAlign = "left";
    }
  }

  /** Around the block of the current event, the picked one, and what a verdict speaks of. */
  private drawOutlines(context: CanvasRenderingContext2D, scroll: number): void {
    const { timeline, event, picked, cursor } = this.pane;
    const theme = colors();
    const around = (segment: number, addr: number, size: number, color: string, dash: number[]) => {
      const range = this.rangeOf(segment, addr);
      if (!range) return;
      context.strokeStyle = color;
      context.lineWidth = 2;
      context.setLineDash(dash);
      this.pieces(range, addr, size, scroll, (x, y, w) => context.strokeRect(x - 1, y - 1, Math.max(w, 3) + 1, STRIP + 2));
      context.setLineDash([]);
    };
    const verdict = timeline.verdict;
    if (verdict && cursor === timeline.cursorAfter(verdict.at)) {
      for (const mark of verdict.marks) {
        const addr = Number(BigInt(mark.addr) - timeline.origin);
        const range = this.placed.find((range) => range.addr <= addr && addr < range.addr + range.size);
        if (range) around(range.segment, addr, mark.size, theme.bad, [4, 2]);
      }
    }
    const block = event === undefined ? -1 : timeline.events.block[event] - 1;
    const { blocks } = timeline;
    if (block >= 0) around(blocks.segment[block] - 1, blocks.addr[block], blocks.size[block], theme.cursor, []);
    if (picked !== undefined) around(blocks.segment[picked] - 1, blocks.addr[picked], blocks.size[picked], theme.cursor, []);
  }

  /** What is under a point: a block, or free bytes of a segment. */
  private under(x: number, y: number): { block?: number; range: Placed } | undefined {
    for (const range of this.placed) {
      const row = Math.floor((y + this.scroll - range.top) / ROW);
      if (row < 0) continue;
      const along = row * this.strip + (x - LEFT) - range.at;
      if (x < LEFT || x > LEFT + this.strip || along < 0 || along >= range.pixels) continue;
      const addr = range.addr + (along / range.pixels) * range.size;
      const { blocks } = this.pane.timeline;
      for (const block of this.pane.timeline.blocksAt(this.pane.cursor)) {
        if (blocks.addr[block] <= addr && addr < blocks.addr[block] + blocks.size[block]) return { block, range };
      }
      return { range };
    }
    return undefined;
  }

  private listen(): void {
    const { root, tip, pane } = this;
    const where = (event: PointerEvent | MouseEvent): [number, number] => {
      const box = root.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    root.addEventListener("pointermove", (event) => {
      const [x, y] = where(event);
      const found = this.under(x, y);
      tip.hidden = !found;
      if (!found) return;
      const { timeline } = pane;
      const { blocks } = timeline;
      if (found.block === undefined) {
        const segment = `free, in a ${timeline.segments.expandable[found.range.segment] ? "range" : "segment"} of ${bytes(found.range.size)}`;
        tip.replaceChildren(element("b", { textContent: segment }), element("div", { textContent: timeline.address(found.range.addr) }));
      } else {
        const frames = this.stacks.of(blocks.stack[found.block]).slice(0, 3).map(shown);
        const state = blocks.freed[found.block] <= pane.cursor ? "waits for other streams" : "live";
        tip.replaceChildren(
          element("b", { textContent: `${bytes(blocks.size[found.block])}, ${state}` }),
          ...frames.map((frame) => element("div", { textContent: frame })),
        );
      }
      tip.style.left = `${Math.max(0, Math.min(x + 14, this.width - tip.offsetWidth - 8))}px`;
      tip.style.top = `${y + 18 + tip.offsetHeight > this.height ? Math.max(0, y - tip.offsetHeight - 8) : y + 18}px`;
    });
    root.addEventListener("pointerleave", () => (tip.hidden = true));
    root.addEventListener("click", (event) => {
      const found = this.under(...where(event));
      pane.picked = found?.block === pane.picked ? undefined : found?.block;
      this.picked();
    });
    root.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(event.deltaY < 0 ? 1 : -1);
      },
      { passive: false },
    );
  }
}

function powerOfTwo(least: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(least, 1)));
}

