// Memory in use, by where it was allocated: the layers of the stacked area, and the colours of blocks.

import { count } from "../words";
import type { Stacks } from "./stacks";
import { shown, shownShort } from "./stacks";
import type { Timeline } from "./timeline";

/** What blocks are put together by. */
export type Grouping = "own" | "outer" | "inner" | "size" | "pool";

export const GROUPINGS: [Grouping, string][] = [
  ["own", "the program's own frame"],
  ["outer", "outermost frame"],
  ["inner", "innermost frame"],
  ["size", "size"],
  ["pool", "pool"],
];

/** Layers with a colour of their own; all others together are one more. */
const TOP = 10;

export interface Layer {
  label: string;
  title: string;
  /** Index of its colour; the rest has -1. */
  color: number;
  /** Bytes at the moment when most was in use. */
  peak: number;
}

export class Layers {
  /** The greatest first; what is left of all others comes last. */
  readonly layers: Layer[] = [];
  /** The layer of each block. */
  readonly ofBlock: Uint8Array;
  /** Bytes in use of each layer, by cursor. */
  readonly bytes: Float32Array[] = [];

  constructor(timeline: Timeline, stacks: Stacks, grouping: Grouping) {
    const { blocks } = timeline;
    const { keys, names } = group(timeline, stacks, grouping);
    const order = rank(timeline, keys, names.length);
    const top = order.slice(0, order.length <= TOP + 1 ? order.length : TOP);
    const layerOf = new Uint8Array(names.length).fill(top.length);
    top.forEach((key, layer) => (layerOf[key] = layer));
    this.ofBlock = new Uint8Array(keys.length);
    for (let at = 0; at < keys.length; at++) this.ofBlock[at] = layerOf[keys[at]];

    for (const key of top) this.layers.push({ ...names[key], color: this.layers.length % TOP, peak: 0 });
    const left = order.length - top.length;
    if (left > 0) this.layers.push({ label: `${count(left)} others`, title: "everything else", color: -1, peak: 0 });

    const end = timeline.end;
    const peak = timeline.peakOf(timeline.active);
    for (let layer = 0; layer < this.layers.length; layer++) {
      const change = new Float64Array(end + 1);
      for (let at = 0; at < keys.length; at++) {
        if (this.ofBlock[at] !== layer) continue;
        change[blocks.born[at]] += blocks.size[at];
        if (blocks.died[at] <= end) change[blocks.died[at]] -= blocks.size[at];
      }
      const bytes = new Float32Array(end + 1);
      let sum = 0;
      for (let cursor = 0; cursor <= end; cursor++) bytes[cursor] = sum += change[cursor];
      this.bytes.push(bytes);
      this.layers[layer].peak = bytes[peak];
    }
  }
}

interface Name {
  label: string;
  title: string;
}

function group(timeline: Timeline, stacks: Stacks, grouping: Grouping): { keys: Uint32Array; names: Name[] } {
  const { blocks } = timeline;
  const keys = new Uint32Array(blocks.size.length);
  const names: Name[] = [];
  const known = new Map<number, number>();
  const key = (value: number, name: () => Name): number => {
    let found = known.get(value);
    if (found === undefined) {
      found = names.length;
      known.set(value, found);
      names.push(name());
    }
    return found;
  };
  if (grouping === "size") {
    for (let at = 0; at < keys.length; at++) {
      const bucket = sizeBucket(blocks.size[at]);
      keys[at] = key(bucket, () => bucketName(bucket));
    }
  } else if (grouping === "pool") {
    for (let at = 0; at < keys.length; at++) {
      const segment = blocks.segment[at];
      const pool = segment > 0 ? timeline.segments.pool[segment - 1] : -1;
      keys[at] = key(pool, () => poolName(timeline, pool));
    }
  } else {
    const frameOf = (stack: number) =>
      grouping === "own" ? stacks.ownFrame(stack) : grouping === "outer" ? stacks.outerFrame(stack) : stacks.innerFrame(stack);
    const frames = Int32Array.from({ length: stacks.count }, (_, stack) => frameOf(stack));
    for (let at = 0; at < keys.length; at++) {
      const id = frames[blocks.stack[at]];
      keys[at] = key(id, () => {
        const frame = stacks.frames[id];
        return frame === undefined
          ? { label: "no stack recorded", title: "the recording has no stack for these blocks" }
          : { label: shownShort(frame), title: shown(frame) };
      });
    }
  }
  return { keys, names };
}

function poolName(timeline: Timeline, pool: number): Name {
  const label = pool < 0 ? "segments not shown by the recording" : timeline.poolLabel(pool);
  return { label, title: label };
}

/** Borders at 512 KiB and then every fourfold. */
function sizeBucket(size: number): number {
  return Math.max(0, Math.floor(Math.log2(size / (512 * 1024)) / 2) + 1);
}

function bucketName(bucket: number): Name {
  const border = (at: number): string => {
    const kib = 512 * 4 ** at;
    return kib < 1024 ? `${kib} KiB` : kib < 1 << 20 ? `${kib / 1024} MiB` : `${kib / (1 << 20)} GiB`;
  };
  const label = bucket === 0 ? `blocks below ${border(0)}` : `blocks of ${border(bucket - 1)} to ${border(bucket)}`;
  return { label, title: label };
}

/** Groups, those first that have most at the peak or most over all time. */
function rank(timeline: Timeline, keys: Uint32Array, groups: number): number[] {
  const { born, died, size } = timeline.blocks;
  const peak = timeline.peakOf(timeline.active);
  const end = Math.max(timeline.end, 1);
  const atPeak = new Float64Array(groups);
  const overTime = new Float64Array(groups);
  for (let at = 0; at < keys.length; at++) {
    if (born[at] <= peak && peak < died[at]) atPeak[keys[at]] += size[at];
    overTime[keys[at]] += (size[at] * (Math.min(died[at], end) - born[at])) / end;
  }
  const weight = (key: number) => Math.max(atPeak[key], overTime[key]);
  return Array.from({ length: groups }, (_, key) => key).sort((a, b) => weight(b) - weight(a));
}
