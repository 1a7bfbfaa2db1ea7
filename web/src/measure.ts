// How long a frame takes while somebody scrubs: the work for it, and from one frame to the next.

import type { App } from "./app";

export async function measure(app: App, frames: number): Promise<object> {
  const work: number[] = [];
  const between: number[] = [];
  const end = app.pane.timeline.end;
  let last = await frame();
  for (let at = 0; at < frames; at++) {
    const start = performance.now();
    app.seek(app.pane, Math.round((end * (at + 1)) / frames));
    app.draw();
    work.push(performance.now() - start);
    const now = await frame();
    between.push(now - last);
    last = now;
  }
  return { frames, work: spread(work), between: spread(between) };
}

function frame(): Promise<number> {
  return new Promise((resolve) => requestAnimationFrame(resolve));
}

/** Milliseconds. */
function spread(values: number[]): { median: number; p95: number; most: number } {
  const sorted = values.sort((a, b) => a - b);
  const at = (share: number) => Number(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))].toFixed(2));
  return { median: at(0.5), p95: at(0.95), most: at(1) };
}
