// Things with lives, by order of birth: which of them are there at a cursor.

/** Cursors between two checkpoints. */
const STRIDE = 1 << 15;

export const NEVER = 0xffffffff;

/** From lengths of lives, plus one, 0 for never, to their ends. In place. */
export function ends(born: Uint32Array, lengths: Uint32Array): Uint32Array {
  for (let at = 0; at < lengths.length; at++) lengths[at] = lengths[at] === 0 ? NEVER : born[at] + lengths[at] - 1;
  return lengths;
}

/** Finds what is there: from the checkpoint before the cursor, and what was born since. */
export class Lives {
  /** What was there at each checkpoint. */
  private readonly alive: Uint32Array[] = [];
  /** What was born up to each checkpoint. */
  private readonly births: number[] = [];
  private found = new Uint32Array(1024);

  constructor(
    private readonly born: Uint32Array,
    private readonly died: Uint32Array,
    end: number,
  ) {
    let births = 0;
    let before: Uint32Array = new Uint32Array(0);
    for (let cursor = 0; cursor <= end; cursor += STRIDE) {
      const now: number[] = [];
      for (const at of before) if (died[at] > cursor) now.push(at);
      for (; births < born.length && born[births] <= cursor; births++) if (died[births] > cursor) now.push(births);
      before = Uint32Array.from(now);
      this.alive.push(before);
      this.births.push(births);
    }
  }

  /** What is there at a cursor, by order of birth. Good until the next call. */
  at(cursor: number): Uint32Array {
    const checkpoint = Math.min(Math.floor(cursor / STRIDE), this.alive.length - 1);
    const { born, died } = this;
    const before = this.alive[checkpoint];
    if (this.found.length < before.length + STRIDE) this.found = new Uint32Array(before.length + 2 * STRIDE);
    let found = this.found;
    let count = 0;
    for (let at = 0; at < before.length; at++) if (died[before[at]] > cursor) found[count++] = before[at];
    for (let at = this.births[checkpoint]; at < born.length && born[at] <= cursor; at++) {
      if (died[at] <= cursor) continue;
      if (count === found.length) {
        found = new Uint32Array(found.length * 2);
        found.set(this.found);
        this.found = found;
      }
      found[count++] = at;
    }
    return found.subarray(0, count);
  }
}
