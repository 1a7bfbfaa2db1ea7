// Figures as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** `1.50 GiB`: three digits, or as many as the whole part has. */
export function bytes(value: number): string {
  let unit = 0;
  let size = Math.abs(value);
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit++;
  }
  const digits = unit === 0 || Number.isInteger(size) || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)} ${UNITS[unit]}`;
}

const WHOLE = new Intl.NumberFormat("en");

/** `1,024` */
export function count(value: number): string {
  return WHOLE.format(value);
}

/** `12,582,912 B (12 MiB)` */
export function exactly(value: number): string {
  return value < 1024 ? `${value} B` : `${bytes(value)} (${count(value)} B)`;
}

export function share(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–";
}

/** Microseconds since the first event. */
export function time(us: number): string {
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(2)} ms`;
  if (us < 6e7) return `${(us / 1e6).toFixed(3)} s`;
  return `${Math.floor(us / 6e7)} min ${((us % 6e7) / 1e6).toFixed(1)} s`;
}

/** The bytes of `64M`, `1.5 GiB`, `512`; undefined of anything else. */
export function parseBytes(text: string): number | undefined {
  const found = /^([\d.]+)\s*([kmgt]?)(i?b)?$/i.exec(text.trim());
  if (!found) return undefined;
  const scale = 1024 ** " kmgt".indexOf(found[2].toLowerCase() || " ");
  const value = Number(found[1]) * scale;
  return Number.isFinite(value) ? value : undefined;
}

const PLAIN: Record<string, string> = {
  alloc: "allocated",
  free_requested: "freed",
  free_completed: "free again",
  segment_alloc: "segment allocated",
  segment_free: "segment released",
  segment_map: "pages mapped",
  segment_unmap: "pages unmapped",
  oom: "OUT OF MEMORY",
  snapshot: "snapshot taken",
  annotate: "annotated",
  retry: "retry",
  synchronised: "synchronised",
  rejected: "rejected",
};

/** An action in words. */
export function plain(action: string): string {
  return PLAIN[action] ?? action;
}
