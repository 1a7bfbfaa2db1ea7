// A picture: many rectangles, and texts and lines over them.

import { Gpu } from "./gpu";
import { colors, css } from "./theme";
import { element } from "../views/dom";

/**
 * With a graphics processor the rectangles are drawn by it, on a canvas of their own. Without one a browser imitates it, and that
 * costs several times what it costs to draw them on a plain canvas; so then everything goes onto one.
 */
export class Picture {
  readonly canvases: HTMLCanvasElement[];
  private readonly gpu: Gpu | undefined;
  private readonly context: CanvasRenderingContext2D;
  private width = 0;
  private height = 0;
  private ratio = 1;
  private filled = -1;

  constructor(private readonly on: "ground" | "sheet") {
    const below = element("canvas");
    this.gpu = Gpu.on(below);
    const above = this.gpu ? element("canvas") : below;
    this.canvases = this.gpu ? [below, above] : [above];
    const context = above.getContext("2d", this.gpu ? { alpha: true } : { alpha: false, willReadFrequently: true });
    if (!context) throw new Error("this browser has no canvas");
    this.context = context;
  }

  /** Begins a picture of so many pixels of CSS. */
  begin(width: number, height: number): void {
    this.ratio = window.devicePixelRatio || 1;
    this.width = width;
    this.height = height;
    const [w, h] = [Math.max(1, Math.round(width * this.ratio)), Math.max(1, Math.round(height * this.ratio))];
    for (const canvas of this.canvases) {
      if (canvas.width === w && canvas.height === h) continue;
      canvas.width = w;
      canvas.height = h;
    }
    const { context } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.filled = -1;
    if (this.gpu) {
      this.gpu.begin();
      context.clearRect(0, 0, width, height);
      return;
    }
    this.fill(colors()[this.on]);
    context.fillRect(0, 0, width, height);
  }

  /** Adds a rectangle; a striped one stands for memory that waits. Colours are 0xRRGGBB. */
  rect(x: number, y: number, w: number, h: number, color: number, striped = false): void {
    if (this.gpu) return this.gpu.add(x, y, w, h, color, striped);
    const { context } = this;
    this.fill(color);
    context.fillRect(x, y, w, h);
    if (!striped) return;
    this.fill(colors()[this.on]);
    for (let at = x + 2; at < x + w; at += 4) context.fillRect(at, y, Math.min(2, x + w - at), h);
  }

  /** All rectangles are there; what is drawn on this comes over them. */
  over(): CanvasRenderingContext2D {
    this.gpu?.draw(this.width, this.height, colors()[this.on]);
    this.filled = -1;
    return this.context;
  }

  private fill(color: number): void {
    if (this.filled === color) return;
    this.filled = color;
    this.context.fillStyle = css(color);
  }
}
