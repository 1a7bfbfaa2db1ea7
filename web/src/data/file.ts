// A file of columns: eight bytes that name the form, then, as zlib, the length of a header, the header, the columns.

import type { Header } from "./header";
import { Stacks } from "./stacks";
import { Timeline } from "./timeline";

const MAGIC = "MPVIEW1\n";
const SCHEMA = 1;

export interface Recording {
  source: string;
  counted: "requests" | "entries";
  stacks: Stacks;
  panels: Timeline[];
}

/** Reads a file of columns. */
export async function read(packed: Uint8Array<ArrayBuffer>): Promise<Recording> {
  const magic = new TextDecoder("latin1").decode(packed.subarray(0, MAGIC.length));
  if (magic !== MAGIC) {
    throw new Error("this is not a file of columns; write one with: millpond view FILE -o out.mpv");
  }
  const bytes = await unpack(packed.subarray(MAGIC.length));
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as Header;
  if (header.schema !== SCHEMA) {
    throw new Error(`the file has form ${header.schema}, this page reads form ${SCHEMA}; write it again with one millpond`);
  }
  const columns = bytes.subarray(4 + length);
  const stacks = new Stacks(header.stacks, columns);
  const panels = header.panels.map((panel) => new Timeline(panel, columns));
  return { source: header.source, counted: header.counted, stacks, panels };
}

/** The bytes that a page carries in itself; none in a page without any. */
export function carried(): Uint8Array<ArrayBuffer> | undefined {
  const text = document.getElementById("columns")?.textContent?.trim() ?? "";
  if (text === "" || text.startsWith("MILLPOND")) return undefined;
  const fast = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (fast) return fast.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

async function unpack(packed: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new Error("the columns cannot be unpacked: the file is cut off or damaged");
  }
}
