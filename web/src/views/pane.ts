// One timeline on the page: what is drawn of it, and the moment that is looked at.

import { Layers, type Grouping } from "../data/layers";
import { Pyramid } from "../data/pyramid";
import type { Stacks } from "../data/stacks";
import type { Timeline } from "../data/timeline";

export class Pane {
  readonly active: Pyramid;
  readonly reserved: Pyramid;
  /** Events at which an allocation failed. */
  readonly ooms: number[];
  readonly peak: number;
  layers: Layers;
  /** How many events have happened. */
  cursor = 0;
  /** A block that was picked, by index. */
  picked: number | undefined;

  constructor(readonly timeline: Timeline, stacks: Stacks, grouping: Grouping) {
    this.active = new Pyramid(timeline.active);
    this.reserved = new Pyramid(timeline.reserved);
    this.ooms = timeline.eventsOf("oom");
    this.peak = timeline.peakOf(timeline.active);
    this.layers = new Layers(timeline, stacks, grouping);
  }

  regroup(stacks: Stacks, grouping: Grouping): void {
    this.layers = new Layers(this.timeline, stacks, grouping);
  }

  /** The same layer has the same colour as beside it. */
  colorAs(other: Pane): void {
    const wanted = new Map(other.layers.layers.map((layer) => [layer.title, layer.color]));
    const taken = new Set<number>();
    const mine = this.layers.layers.filter((layer) => layer.color >= 0);
    for (const layer of mine) {
      const color = wanted.get(layer.title);
      if (color !== undefined && color >= 0) taken.add((layer.color = color));
    }
    let next = 0;
    for (const layer of mine.filter((layer) => !wanted.has(layer.title))) {
      while (taken.has(next)) next++;
      layer.color = next++;
    }
  }

  /** The event that led here; none at the start. */
  get event(): number | undefined {
    return this.cursor > 0 ? this.cursor - 1 : undefined;
  }

  get title(): string {
    return titleOf(this.timeline);
  }
}

/** What a timeline is called beside others. */
export function titleOf({ kind, device, conf }: Timeline): string {
  const settings = conf === "" ? "default settings" : conf;
  return `GPU ${device} · ${kind === "recording" ? "as recorded" : "replay"} · ${settings}`;
}
