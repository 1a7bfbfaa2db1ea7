// Call stacks, frames and texts once each.

import { large, small } from "./columns";
import type { Header } from "./header";

export interface Frame {
  name: string;
  file: string;
  line: number;
}

/** What is not the program's own: the framework, the interpreter, and everything compiled. */
const FOREIGN = /(^|[\\/])(torch|site-packages|dist-packages|transformers|accelerate|peft|diffusers|lib[\\/]python[\d.]+)[\\/]|^<|\.(cpp|cc|cu|h|hpp|c|so)$|^\?*$/;

export class Stacks {
  readonly frames: Frame[] = [];
  /** Where the frames of each stack begin in `items`; one more than there are stacks. */
  private readonly starts: Uint32Array;
  private readonly items: Uint32Array;
  private readonly own: boolean[];

  constructor(header: Header["stacks"], columns: Uint8Array) {
    const names = small(columns, header.names);
    const files = small(columns, header.files);
    const lines = large(columns, header.lines);
    for (let at = 0; at < names.length; at++) {
      this.frames.push({ name: header.texts[names[at]], file: header.texts[files[at]], line: lines[at] });
    }
    this.items = small(columns, header.items);
    const depths = small(columns, header.depths);
    this.starts = new Uint32Array(depths.length + 1);
    for (let at = 0; at < depths.length; at++) this.starts[at + 1] = this.starts[at] + depths[at];
    this.own = this.frames.map((frame) => !FOREIGN.test(frame.file) && !frame.name.includes("::"));
  }

  get count(): number {
    return this.starts.length - 1;
  }

  /** Whether any stack has frames. */
  get areKnown(): boolean {
    return this.items.length > 0;
  }

  /** The frames of a stack, innermost first. */
  of(stack: number): Frame[] {
    return Array.from(this.ids(stack), (id) => this.frames[id]);
  }

  private ids(stack: number): Uint32Array {
    return this.items.subarray(this.starts[stack], this.starts[stack + 1]);
  }

  /** The innermost frame of the program's own code, else the innermost; -1 of an empty stack. */
  ownFrame(stack: number): number {
    const ids = this.ids(stack);
    if (ids.length === 0) return -1;
    return ids.find((id) => this.own[id]) ?? ids[0];
  }

  /** The outermost frame of the program's own code, else the outermost; -1 of an empty stack. */
  outerFrame(stack: number): number {
    const ids = this.ids(stack);
    if (ids.length === 0) return -1;
    return ids.findLast((id) => this.own[id] && this.frames[id].name !== "<module>") ?? ids[ids.length - 1];
  }

  /** The innermost frame; -1 of an empty stack. */
  innerFrame(stack: number): number {
    return this.ids(stack)[0] ?? -1;
  }

  /** Whether a stack has a frame with the text in it; lower case. */
  matcher(text: string): Uint8Array {
    const frames = this.frames.map((frame) => shown(frame).toLowerCase().includes(text));
    const stacks = new Uint8Array(this.count);
    for (let stack = 0; stack < stacks.length; stack++) stacks[stack] = this.ids(stack).some((id) => frames[id]) ? 1 : 0;
    return stacks;
  }
}

/** `forward  model.py:12` */
export function shown(frame: Frame): string {
  return frame.line > 0 ? `${frame.name}  ${frame.file}:${frame.line}` : `${frame.name}  ${frame.file}`;
}

/** The same with the file's last two parts alone. */
export function shownShort(frame: Frame): string {
  const file = frame.file.split(/[\\/]/).slice(-2).join("/");
  const name = frame.name.length > 48 ? `${frame.name.slice(0, 46)}…` : frame.name;
  return frame.line > 0 ? `${name}  ${file}:${frame.line}` : `${name}  ${file}`;
}
