// One timeline: what a device held and had in use, and from when to when. A moment is a cursor: how many events happened.

import { large, small, tiny } from "./columns";
import type { PanelHeader, Verdict } from "./header";
import { ends, Lives } from "./lives";

export interface Pool {
  stream: string;
  class: "small" | "large";
  id: [number, number];
}

/** Bytes at a moment. */
export interface Totals {
  allocated: number;
  active: number;
  requested: number;
  reserved: number;
}

/** A segment at a moment, as `millpond replay --json` has it. */
export interface SegmentHolding {
  address: string;
  size: number;
  stream: string;
  size_class: string;
  pool: [number, number];
  expandable: boolean;
  allocated: number;
  active: number;
  requested: number;
  largest_free: number;
  blocks: number;
}

/** A block at a moment, as a snapshot has it. */
export interface BlockInUse {
  address: string;
  size: number;
  requested_size: number;
  state: "active_allocated" | "active_pending_free";
}

export class Timeline {
  readonly kind: "recording" | "replay";
  readonly device: number;
  readonly conf: string;
  readonly capacity: number | null;
  readonly others: number;
  readonly contradictions: number;
  readonly hasTimes: boolean;
  readonly origin: bigint;
  readonly verdict: Verdict | null;
  readonly pools: Pool[];
  /** The names of actions. */
  readonly actions: string[];

  readonly segments;
  readonly held;
  readonly blocks;
  readonly events;

  /** Bytes by cursor: in live blocks, with those that wait, asked for, held. */
  readonly allocated: Float64Array;
  readonly active: Float64Array;
  readonly requested: Float64Array;
  readonly reserved: Float64Array;

  private readonly blockLives: Lives;
  private readonly heldLives: Lives;

  constructor(header: PanelHeader, columns: Uint8Array) {
    this.kind = header.kind;
    this.device = header.device;
    this.conf = header.conf;
    this.capacity = header.capacity;
    this.others = header.others;
    this.contradictions = header.contradictions;
    this.hasTimes = header.has_times;
    this.origin = BigInt(header.origin);
    this.verdict = header.verdict;
    this.pools = header.pools;
    this.actions = header.actions;

    const { segments, held, blocks, events } = header;
    this.segments = {
      base: large(columns, segments.base),
      size: large(columns, segments.size),
      pool: small(columns, segments.pool),
      expandable: tiny(columns, segments.expandable),
    };
    const heldBorn = small(columns, held.born);
    this.held = {
      segment: small(columns, held.segment),
      addr: large(columns, held.addr),
      size: large(columns, held.size),
      born: heldBorn,
      died: ends(heldBorn, small(columns, held.died)),
    };
    const born = small(columns, blocks.born);
    this.blocks = {
      /** 0 for none, else the segment plus one. */
      segment: small(columns, blocks.segment),
      addr: large(columns, blocks.addr),
      size: large(columns, blocks.size),
      requested: large(columns, blocks.requested),
      stack: small(columns, blocks.stack),
      born,
      freed: ends(born, small(columns, blocks.freed)),
      died: ends(born, small(columns, blocks.died)),
    };
    const block = small(columns, events.block);
    this.events = {
      at: small(columns, events.at),
      action: tiny(columns, events.action),
      /** 0 for none, else the block plus one. */
      block,
      pool: small(columns, events.pool),
      stack: small(columns, events.stack),
      time: large(columns, events.time),
      addr: spread(block, large(columns, events.addr)),
      size: spread(block, large(columns, events.size)),
    };

    const count = block.length + 1;
    this.allocated = new Float64Array(count);
    this.active = new Float64Array(count);
    this.requested = new Float64Array(count);
    this.reserved = new Float64Array(count);
    this.sum();
    this.blockLives = new Lives(this.blocks.born, this.blocks.died, this.end);
    this.heldLives = new Lives(this.held.born, this.held.died, this.end);
  }

  /** The last cursor. */
  get end(): number {
    return this.events.block.length;
  }

  /** The cursor after everything that came with request `at`. */
  cursorAfter(at: number): number {
    return upperBound(this.events.at, at);
  }

  /** Blocks in use at a cursor. Good until the next call. */
  blocksAt(cursor: number): Uint32Array {
    return this.blockLives.at(cursor);
  }

  /** Held ranges at a cursor. Good until the next call. */
  heldAt(cursor: number): Uint32Array {
    return this.heldLives.at(cursor);
  }

  totals(cursor: number): Totals {
    return {
      allocated: this.allocated[cursor],
      active: this.active[cursor],
      requested: this.requested[cursor],
      reserved: this.reserved[cursor],
    };
  }

  /** The bytes that an event is about. */
  bytesOf(event: number): number {
    const block = this.events.block[event];
    return block > 0 ? this.blocks.requested[block - 1] : this.events.size[event];
  }

  /** The address that an event is about; an out-of-memory error has none. */
  addressOf(event: number): number | undefined {
    const block = this.events.block[event];
    if (block > 0) return this.blocks.addr[block - 1];
    const action = this.action(event);
    return action === "oom" || action === "rejected" || action === "snapshot" ? undefined : this.events.addr[event];
  }

  action(event: number): string {
    return this.actions[this.events.action[event]];
  }

  /** An address as the source has it. */
  address(relative: number): string {
    return `0x${(this.origin + BigInt(relative)).toString(16)}`;
  }

  /** How many requests have been made at a cursor. */
  requestsAt(cursor: number): number {
    return cursor === 0 ? 0 : this.events.at[cursor - 1] + 1;
  }

  /** The cursor when so many requests have been made. */
  cursorAt(requests: number): number {
    return this.cursorAfter(requests - 1);
  }

  /** All requests that something came of. */
  get requestCount(): number {
    return this.requestsAt(this.end);
  }

  /** A pool in words. */
  poolLabel(index: number): string {
    const pool = this.pools[index];
    const stream = pool.stream === "0" ? "default stream" : `stream ${BigInt(pool.stream) > 0xffffn ? `0x${BigInt(pool.stream).toString(16)}` : pool.stream}`;
    const memory = pool.id[0] === 0 && pool.id[1] === 0 ? "" : pool.id[0] > 0 ? ` · graph pool ${pool.id[0]}` : ` · MemPool ${pool.id[1]}`;
    return `${pool.class} · ${stream}${memory}`;
  }

  /** Events of an action, by index. */
  eventsOf(...names: string[]): number[] {
    const wanted = new Set(names.map((name) => this.actions.indexOf(name)));
    wanted.delete(-1);
    const found: number[] = [];
    if (wanted.size === 0) return found;
    const { action } = this.events;
    for (let event = 0; event < action.length; event++) if (wanted.has(action[event])) found.push(event);
    return found;
  }

  /** The cursor at which a column of bytes is highest for the first time. */
  peakOf(bytes: Float64Array): number {
    let peak = 0;
    for (let cursor = 1; cursor < bytes.length; cursor++) if (bytes[cursor] > bytes[peak]) peak = cursor;
    return peak;
  }

  /** The segments at a cursor, by address. */
  segmentsAt(cursor: number): SegmentHolding[] {
    const { held, segments, blocks } = this;
    const byAddress = (addr: Float64Array) => (a: number, b: number) => addr[a] - addr[b];
    const ranges = Array.from(this.heldAt(cursor)).sort(byAddress(held.addr));
    const inUse = Array.from(this.blocksAt(cursor)).filter((at) => blocks.segment[at] > 0);
    inUse.sort(byAddress(blocks.addr));
    const holdings: SegmentHolding[] = [];
    let last = -1;
    let next = 0;
    for (let at = 0; at < ranges.length; ) {
      const segment = held.segment[ranges[at]];
      const from = held.addr[ranges[at]];
      let end = from + held.size[ranges[at]];
      for (at++; at < ranges.length && held.segment[ranges[at]] === segment && held.addr[ranges[at]] === end; at++) {
        end += held.size[ranges[at]];
      }
      if (segment !== last) holdings.push(this.emptyHolding(segment, segments.base[segment]));
      last = segment;
      const holding = holdings[holdings.length - 1];
      const free = (bytes: number) => {
        if (bytes <= 0) return;
        holding.blocks++;
        holding.largest_free = Math.max(holding.largest_free, bytes);
      };
      holding.size += end - from;
      let free_from = from;
      for (; next < inUse.length && blocks.addr[inUse[next]] < end; next++) {
        const block = inUse[next];
        if (blocks.addr[block] < free_from) continue;
        free(blocks.addr[block] - free_from);
        holding.blocks++;
        holding.active += blocks.size[block];
        holding.requested += blocks.requested[block];
        if (blocks.freed[block] > cursor) holding.allocated += blocks.size[block];
        free_from = blocks.addr[block] + blocks.size[block];
      }
      free(end - free_from);
    }
    return holdings;
  }

  /** The blocks in use at a cursor, by address, in PyTorch's words. */
  inUseAt(cursor: number): BlockInUse[] {
    const { addr, size, requested, freed } = this.blocks;
    const inUse = Array.from(this.blocksAt(cursor)).sort((a, b) => addr[a] - addr[b]);
    return inUse.map((block) => ({
      address: (this.origin + BigInt(addr[block])).toString(),
      size: size[block],
      requested_size: requested[block],
      state: freed[block] > cursor ? "active_allocated" : "active_pending_free",
    }));
  }

  private emptyHolding(segment: number, base: number): SegmentHolding {
    const pool = this.pools[this.segments.pool[segment]];
    return {
      address: (this.origin + BigInt(base)).toString(),
      size: 0,
      stream: pool.stream,
      size_class: pool.class,
      pool: pool.id,
      expandable: this.segments.expandable[segment] === 1,
      allocated: 0,
      active: 0,
      requested: 0,
      largest_free: 0,
      blocks: 0,
    };
  }

  private sum(): void {
    const { born, freed, died, size, requested } = this.blocks;
    const { held, allocated, active, reserved } = this;
    const end = this.end;
    for (let at = 0; at < born.length; at++) {
      allocated[born[at]] += size[at];
      active[born[at]] += size[at];
      this.requested[born[at]] += requested[at];
      if (freed[at] <= end) allocated[freed[at]] -= size[at];
      if (died[at] <= end) {
        active[died[at]] -= size[at];
        this.requested[died[at]] -= requested[at];
      }
    }
    for (let at = 0; at < held.born.length; at++) {
      reserved[held.born[at]] += held.size[at];
      if (held.died[at] <= end) reserved[held.died[at]] -= held.size[at];
    }
    for (const bytes of [allocated, active, this.requested, reserved]) {
      for (let cursor = 1; cursor < bytes.length; cursor++) bytes[cursor] += bytes[cursor - 1];
    }
  }
}

/** Figures of the events about no block, by event. */
function spread(block: Uint32Array, figures: Float64Array): Float64Array {
  const spread = new Float64Array(block.length);
  let next = 0;
  for (let event = 0; event < block.length; event++) if (block[event] === 0) spread[event] = figures[next++];
  return spread;
}

/** How many values of a rising column are at most `value`. */
export function upperBound(column: Uint32Array | Float64Array, value: number): number {
  let from = 0;
  let to = column.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (column[middle] <= value) from = middle + 1;
    else to = middle;
  }
  return from;
}
