// The moment in words: what happened, where in the program, and what was there after it.

import { stackOf } from "../data/search";
import { shown, type Stacks } from "../data/stacks";
import { bytes, count, exactly, plain, share, time } from "../words";
import { button, element } from "./dom";
import type { Pane } from "./pane";

export class Details {
  readonly root = element("section", { className: "details" });

  constructor(
    private readonly stacks: Stacks,
    private readonly counted: "requests" | "entries",
    private readonly seek: (pane: Pane, cursor: number) => void,
  ) {}

  show(pane: Pane): void {
    const { timeline, cursor, event } = pane;
    const parts: Node[] = [];
    if (event === undefined) {
      parts.push(element("h2", { textContent: "Before the first event" }));
    } else {
      const action = timeline.action(event);
      const what = action === "oom" ? `OUT OF MEMORY for ${bytes(timeline.bytesOf(event))}` : `${bytes(timeline.bytesOf(event))} ${plain(action)}`;
      const heading = element("h2", { textContent: what });
      if (action === "oom") heading.className = "bad";
      parts.push(heading, this.facts(pane, event));
    }
    const now = timeline.totals(cursor);
    const held = timeline.capacity === null ? "" : ` of ${bytes(timeline.capacity - timeline.others)}`;
    parts.push(
      table([
        ["in use", `${exactly(now.active)}`],
        ["waiting", now.active > now.allocated ? exactly(now.active - now.allocated) : ""],
        ["reserved", `${bytes(now.reserved)}${held}`],
        ["free inside", `${bytes(now.reserved - now.active)}, ${share(now.reserved - now.active, now.reserved)}`],
      ]),
    );
    if (event !== undefined) parts.push(this.stack(stackOf(timeline, event)));
    if (pane.picked !== undefined) parts.push(...this.pickedBlock(pane, pane.picked));
    this.root.replaceChildren(...parts);
  }

  private facts(pane: Pane, event: number): Node {
    const { timeline } = pane;
    const { events } = timeline;
    const address = timeline.addressOf(event);
    return table([
      [this.counted === "requests" ? "request" : "entry", `${count(events.at[event])}  ·  event ${count(event + 1)} of ${count(timeline.end)}`],
      ["pool", timeline.poolLabel(events.pool[event])],
      ["address", address === undefined ? "" : timeline.address(address)],
      ["device free", timeline.action(event) === "oom" ? exactly(timeline.events.addr[event]) : ""],
      ["time", timeline.hasTimes ? time(events.time[event]) : ""],
    ]);
  }

  private stack(stack: number): Node {
    const frames = this.stacks.of(stack);
    if (frames.length === 0) return element("p", { className: "faint", textContent: "no stack" });
    const own = this.stacks.frames[this.stacks.ownFrame(stack)];
    const items = frames.map((frame) => {
      const item = element("li", { title: shown(frame) }, element("b", { textContent: frame.name }), ` ${frame.file}${frame.line > 0 ? `:${frame.line}` : ""}`);
      if (frame === own) item.className = "own";
      return item;
    });
    return element("ol", { className: "stack" }, ...items);
  }

  private pickedBlock(pane: Pane, block: number): Node[] {
    const { blocks } = pane.timeline;
    const { born, died, freed } = { born: blocks.born[block], died: blocks.died[block], freed: blocks.freed[block] };
    const end = pane.timeline.end;
    const ends = died > end ? "never freed" : `events ${count(born)} to ${count(died)}`;
    const actions = element("p", { className: "actions" });
    if (born > 0) actions.append(button("its allocation", "go to where it was allocated", () => this.seek(pane, born)));
    if (freed <= end) actions.append(button("its free", "go to where it was freed", () => this.seek(pane, freed)));
    return [
      element("h3", { textContent: `Picked block of ${bytes(blocks.size[block])}` }),
      table([
        ["asked for", exactly(blocks.requested[block])],
        ["address", pane.timeline.address(blocks.addr[block])],
        ["life", born === 0 ? `from before; ${died > end ? "never freed" : `until event ${count(died)}`}` : ends],
      ]),
      this.stack(blocks.stack[block]),
      actions,
    ];
  }
}

function table(rows: [string, string][]): Node {
  const list = element("dl");
  for (const [name, value] of rows) {
    if (value !== "") list.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
  }
  return list;
}
