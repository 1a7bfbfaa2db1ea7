// Memory in use over time, as an area for each layer; what is held and what there is as lines over it.

import { Picture } from "../draw/picture";
import { colors, layerColor } from "../draw/theme";
import { bytes, count } from "../words";
import { element } from "./dom";
import type { Pane } from "./pane";

const LEFT = 64;
const BOTTOM = 24;
const TOP = 10;
const RIGHT = 8;

/** Requests that are shown: from, to. */
export type Span = [number, number];

export interface ChartHost {
  span: Span;
  /** The greatest figure on any chart of the page. */
  most: number;
  counted: string;
  seek(pane: Pane, cursor: number): void;
  zoom(span: Span): void;
}

export class Chart {
  readonly root: HTMLElement;
  private readonly picture = new Picture("ground");
  /** The line at the cursor: it alone moves while somebody scrubs. */
  private readonly line = element("div", { className: "line" });
  private readonly tip: HTMLElement;
  private width = 0;
  private height = 0;
  private dragging: "scrub" | "pan" | undefined;
  private last = 0;
  /** What the picture was drawn for. */
  private drawn = "";

  constructor(private readonly pane: Pane, private readonly host: ChartHost) {
    this.tip = element("div", { className: "tip", hidden: true });
    this.root = element("div", { className: "chart", tabIndex: 0 }, ...this.picture.canvases, this.line, this.tip);
    this.root.setAttribute("role", "slider");
    this.root.setAttribute("aria-label", `moment of ${pane.title}`);
    this.listen();
  }

  resize(): void {
    this.width = this.root.clientWidth;
    this.height = this.root.clientHeight;
    this.drawn = "";
  }

  /** Draws; all but the line at the cursor only when it changes. */
  draw(): void {
    const { pane, host } = this;
    const state = [this.width, this.height, ...host.span, host.most, colors().text].join();
    if (state !== this.drawn) {
      this.drawPicture();
      this.drawn = state;
    }
    this.placeLine();
    const { timeline, cursor } = pane;
    this.root.setAttribute("aria-valuemin", "0");
    this.root.setAttribute("aria-valuemax", String(timeline.end));
    this.root.setAttribute("aria-valuenow", String(cursor));
    const said = `${count(cursor)} of ${count(timeline.end)} events: ${bytes(timeline.active[cursor])} in use`;
    this.root.setAttribute("aria-valuetext", `${said}, ${bytes(timeline.reserved[cursor])} reserved`);
  }

  /** Layers have changed. */
  stale(): void {
    this.drawn = "";
  }

  private get plot(): { w: number; h: number } {
    return { w: Math.max(1, this.width - LEFT - RIGHT), h: Math.max(1, this.height - TOP - BOTTOM) };
  }

  private requestsAt(x: number): number {
    const [from, to] = this.host.span;
    return from + ((x - LEFT) / this.plot.w) * (to - from);
  }

  private x(requests: number): number {
    const [from, to] = this.host.span;
    return LEFT + ((requests - from) / (to - from)) * this.plot.w;
  }

  private y(value: number): number {
    return TOP + this.plot.h * (1 - value / this.host.most);
  }

  /** The cursors [from, to) of a column of pixels. */
  private cursors(x: number, step: number): [number, number] {
    const { timeline } = this.pane;
    const from = timeline.cursorAt(Math.floor(this.requestsAt(x)));
    const to = timeline.cursorAt(Math.floor(this.requestsAt(x + step)));
    return [from, Math.max(to, from) + 1];
  }

  private drawPicture(): void {
    this.picture.begin(this.width, this.height);
    this.drawAreas();
    this.drawLines(this.picture.over());
  }

  private drawAreas(): void {
    const { pane, picture } = this;
    const { layers, bytes: sums } = pane.layers;
    const tints = layers.map((layer) => layerColor(layer.color));
    const step = 1 / (window.devicePixelRatio || 1);
    const end = Math.min(LEFT + this.plot.w, this.x(pane.timeline.requestCount));
    for (let x = LEFT; x < end; x += step) {
      const [from, to] = this.cursors(x, step);
      const at = pane.active.highest(from, Math.min(to, pane.timeline.end + 1));
      let base = 0;
      // The rest is the ground on which the named ones stand.
      for (let layer = layers.length - 1; layer >= 0; layer--) {
        const value = sums[layer][at];
        if (value <= 0) continue;
        const top = this.y(base + value);
        picture.rect(x, top, step, this.y(base) - top, tints[layer]);
        base += value;
      }
    }
  }

  private drawLines(context: CanvasRenderingContext2D): void {
    const { pane, host } = this;
    const { timeline } = pane;
    const theme = colors();
    context.font = "12px system-ui, sans-serif";
    this.drawAxes(context);

    context.strokeStyle = theme.reserved;
    context.lineWidth = 1.5;
    context.beginPath();
    const end = Math.min(LEFT + this.plot.w, this.x(timeline.requestCount));
    for (let x = LEFT; x < end; x++) {
      const [from, to] = this.cursors(x, 1);
      const y = this.y(timeline.reserved[pane.reserved.highest(from, Math.min(to, timeline.end + 1))]);
      if (x === LEFT) context.moveTo(x, y);
      else context.lineTo(x, y);
    }
    context.stroke();

    if (timeline.capacity !== null && timeline.capacity - timeline.others <= host.most) {
      const usable = timeline.capacity - timeline.others;
      const y = this.y(usable);
      context.strokeStyle = theme.capacity;
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(LEFT + this.plot.w, y);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = theme.capacity;
      context.textAlign = "right";
      context.textBaseline = y > TOP + 14 ? "bottom" : "top";
      context.fillText(`the device: ${bytes(usable)}`, LEFT + this.plot.w - 4, y + (y > TOP + 14 ? -2 : 3));
    }
    this.drawMarks(context);
  }

  private drawMarks(context: CanvasRenderingContext2D): void {
    const { pane } = this;
    const theme = colors();
    context.fillStyle = theme.bad;
    let before = -10;
    for (const event of pane.ooms) {
      const x = this.x(pane.timeline.requestsAt(event + 1));
      if (x < LEFT || x > LEFT + this.plot.w || x - before < 3) continue;
      before = x;
      context.beginPath();
      context.moveTo(x - 5, TOP - 8);
      context.lineTo(x + 5, TOP - 8);
      context.lineTo(x, TOP + 2);
      context.fill();
    }
  }

  private placeLine(): void {
    const { pane } = this;
    const x = this.x(pane.timeline.requestsAt(pane.cursor));
    this.line.hidden = x < LEFT - 1 || x > LEFT + this.plot.w + 1;
    this.line.style.transform = `translateX(${x}px)`;
  }

  private drawAxes(context: CanvasRenderingContext2D): void {
    const theme = colors();
    const { h } = this.plot;
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const step = byteStep(this.host.most, Math.max(2, Math.floor(h / 34)));
    for (let value = 0; value <= this.host.most; value += step) {
      const y = Math.round(this.y(value)) + 0.5;
      context.globalAlpha = 0.55;
      context.strokeStyle = theme.grid;
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(this.width - RIGHT, y);
      context.stroke();
      context.globalAlpha = 1;
      context.fillStyle = theme.faint;
      context.fillText(bytes(value), LEFT - 6, y);
    }
    const [from, to] = this.host.span;
    const wide = Math.max(1, decimalStep((to - from) / Math.max(2, Math.floor(this.plot.w / 110))));
    context.textBaseline = "top";
    context.textAlign = "center";
    for (let at = Math.ceil(from / wide) * wide; at <= to; at += wide) {
      const x = this.x(at);
      const text = at === 0 ? this.host.counted : count(at);
      context.textAlign = at === 0 ? "left" : x > this.width - 40 ? "right" : "center";
      context.fillText(text, Math.min(x, this.width - RIGHT), TOP + h + 7);
    }
  }

  private listen(): void {
    const { root, host, pane } = this;
    const seek = (event: PointerEvent) => {
      const requests = Math.round(this.requestsAt(event.offsetX));
      host.seek(pane, pane.timeline.cursorAt(Math.max(0, Math.min(requests, pane.timeline.requestCount))));
    };
    root.addEventListener("pointerdown", (event) => {
      this.dragging = event.shiftKey || event.button === 1 ? "pan" : "scrub";
      this.last = event.offsetX;
      root.setPointerCapture(event.pointerId);
      if (this.dragging === "scrub") seek(event);
    });
    root.addEventListener("pointermove", (event) => {
      if (this.dragging === "scrub") seek(event);
      if (this.dragging === "pan") {
        const [from, to] = host.span;
        const by = ((this.last - event.offsetX) / this.plot.w) * (to - from);
        this.last = event.offsetX;
        host.zoom([from + by, to + by]);
      }
      this.point(event.offsetX, event.offsetY);
    });
    root.addEventListener("pointerup", () => (this.dragging = undefined));
    root.addEventListener("pointerleave", () => (this.tip.hidden = true));
    root.addEventListener("dblclick", () => host.zoom([0, Infinity]));
    root.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const [from, to] = host.span;
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
          const by = (event.deltaX / this.plot.w) * (to - from);
          return host.zoom([from + by, to + by]);
        }
        const at = this.requestsAt(event.offsetX);
        const scale = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300)));
        host.zoom([at - (at - from) * scale, at + (to - at) * scale]);
      },
      { passive: false },
    );
  }

  /** Says what is under the pointer. */
  private point(x: number, y: number): void {
    const { pane, tip } = this;
    const { timeline } = pane;
    tip.hidden = x < LEFT || x > LEFT + this.plot.w || x > this.x(timeline.requestCount) + 2;
    if (tip.hidden) return;
    const [from, to] = this.cursors(x, 1);
    const at = pane.active.highest(from, Math.min(to, timeline.end + 1));
    const { layers, bytes: sums } = pane.layers;
    let base = 0;
    let found = "";
    for (let layer = layers.length - 1; layer >= 0; layer--) {
      const value = sums[layer][at];
      if (y <= this.y(base) && y > this.y(base + value)) found = `${layers[layer].label}: ${bytes(value)}`;
      base += value;
    }
    const used = `${bytes(timeline.active[at])} in use, ${bytes(timeline.reserved[at])} reserved`;
    tip.replaceChildren(element("b", { textContent: used }), element("div", { textContent: found }));
    tip.style.left = `${Math.min(x + 14, Math.max(0, this.width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.min(y + 14, Math.max(0, this.height - tip.offsetHeight - 4))}px`;
  }
}

/** A step of bytes that reads well: a power of two. */
function byteStep(most: number, lines: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(most, 1) / lines));
}

/** The next of 1, 2, 5, 10, 20, … */
function decimalStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((by) => by * power).find((step) => step >= least) ?? power * 10;
}
