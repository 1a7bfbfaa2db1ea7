// Light and dark: what is drawn takes its colours from here, what is marked up from the style sheet.

export interface Colors {
  layers: number[];
  rest: number;
  /** What pictures stand on, as the style sheet has it. */
  ground: number;
  sheet: number;
  /** Held and free. */
  free: number;
  text: string;
  faint: string;
  grid: string;
  reserved: string;
  capacity: string;
  bad: string;
  cursor: string;
  /** On a block. */
  label: string;
}

const LIGHT: Colors = {
  layers: [0x3f78c0, 0xe0913a, 0x3f9f72, 0xc65670, 0x8468b8, 0x2b9fa8, 0xb9952a, 0x95664a, 0xcc7bb4, 0x7a9a3c],
  rest: 0x9aa5b1,
  ground: 0xf6f8fa,
  sheet: 0xffffff,
  free: 0xe1e6ec,
  text: "#1c2733",
  faint: "#566574",
  grid: "#d9e0e7",
  reserved: "#1c2733",
  capacity: "#b3261e",
  bad: "#b3261e",
  cursor: "#0b1620",
  label: "#ffffff",
};

const DARK: Colors = {
  layers: [0x5b94dc, 0xe5a050, 0x56b98a, 0xdb7089, 0x9f85d3, 0x45b6bf, 0xcdaa45, 0xb08264, 0xd890c3, 0x95b656],
  rest: 0x7a8693,
  ground: 0x10161c,
  sheet: 0x171f27,
  free: 0x2b3541,
  text: "#e6edf3",
  faint: "#9aa8b5",
  grid: "#2c3742",
  reserved: "#e6edf3",
  capacity: "#ff8a80",
  bad: "#ff8a80",
  cursor: "#ffffff",
  label: "#0b1620",
};

export type Theme = "auto" | "light" | "dark";

const dark = window.matchMedia("(prefers-color-scheme: dark)");
let chosen: Theme = "auto";

export function isDark(): boolean {
  return chosen === "auto" ? dark.matches : chosen === "dark";
}

export function colors(): Colors {
  return isDark() ? DARK : LIGHT;
}

/** From what the system wants to the other one, and back. */
export function toggleTheme(): void {
  chosen = isDark() ? "light" : "dark";
  document.documentElement.dataset["theme"] = chosen;
}

export function onSystemTheme(changed: () => void): void {
  dark.addEventListener("change", changed);
}

export function css(color: number): string {
  return `#${color.toString(16).padStart(6, "0")}`;
}

export function layerColor(color: number): number {
  const known = colors();
  return known.layers[color] ?? known.rest;
}
