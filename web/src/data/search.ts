// Which events a text finds. Words must all hold: `oom`, `>64M`, `<1K`, `0x7f00…`, or a part of an action or a frame.

import { parseBytes, plain } from "../words";
import type { Stacks } from "./stacks";
import type { Timeline } from "./timeline";

type Holds = (event: number) => boolean;

/** The events that are found, in order; all of them for an empty text. */
export function search(timeline: Timeline, stacks: Stacks, text: string): Uint32Array {
  const words = text.trim().toLowerCase().split(/\s+/).filter((word) => word !== "");
  const tests = words.map((word) => test(timeline, stacks, word));
  const found = new Uint32Array(timeline.end);
  let count = 0;
  for (let event = 0; event < timeline.end; event++) {
    if (tests.every((holds) => holds(event))) found[count++] = event;
  }
  return found.subarray(0, count);
}

function test(timeline: Timeline, stacks: Stacks, word: string): Holds {
  const { events, blocks } = timeline;
  const size = /^[<>]/.test(word) ? parseBytes(word.slice(1)) : undefined;
  if (size !== undefined) {
    return word.startsWith(">") ? (event) => timeline.bytesOf(event) >= size : (event) => timeline.bytesOf(event) <= size;
  }
  if (/^0x[\da-f]+$/.test(word)) {
    const wanted = Number(BigInt(word) - timeline.origin);
    return (event) => {
      const from = timeline.addressOf(event);
      if (from === undefined) return false;
      const block = events.block[event];
      return wanted >= from && wanted < from + Math.max(1, block > 0 ? blocks.size[block - 1] : events.size[event]);
    };
  }
  const actions = timeline.actions.map((action) => action.includes(word) || plain(action).toLowerCase().includes(word));
  const inStack = stacks.matcher(word);
  return (event) => actions[events.action[event]] || inStack[stackOf(timeline, event)] === 1;
}

/** Where an event was; of a free without a stack of its own, where its block was allocated. */
export function stackOf(timeline: Timeline, event: number): number {
  const { events, blocks } = timeline;
  const block = events.block[event];
  return events.stack[event] === 0 && block > 0 ? blocks.stack[block - 1] : events.stack[event];
}
