// What the header of a file of columns says. Written by crates/viewer/src/page/header.rs.

import type { Column } from "./columns";

export interface Header {
  schema: number;
  source: string;
  counted: "requests" | "entries";
  stacks: {
    texts: string[];
    names: Column;
    files: Column;
    lines: Column;
    items: Column;
    depths: Column;
  };
  panels: PanelHeader[];
}

export interface PanelHeader {
  kind: "recording" | "replay";
  device: number;
  conf: string;
  capacity: number | null;
  others: number;
  contradictions: number;
  has_times: boolean;
  /** What is to be added to every address, hexadecimal. */
  origin: string;
  actions: string[];
  pools: { stream: string; class: "small" | "large"; id: [number, number] }[];
  segments: Record<"base" | "size" | "pool" | "expandable" | "born" | "died", Column>;
  held: Record<"segment" | "addr" | "size" | "born" | "died", Column>;
  blocks: Record<"segment" | "addr" | "size" | "requested" | "stack" | "born" | "freed" | "died", Column>;
  events: Record<"at" | "action" | "block" | "addr" | "size" | "pool" | "stack" | "time", Column>;
  verdict: Verdict | null;
}

export interface Verdict {
  at: number;
  title: string;
  text: string[];
  marks: { addr: string; size: number; label: string }[];
}
