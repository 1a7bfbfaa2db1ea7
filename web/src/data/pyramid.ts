// Where a column is highest and lowest, over any range of it, without looking at all of it.

/** Values below the lowest level of the pyramid. */
export const BIN = 64;

export class Pyramid {
  private readonly highs: Uint32Array[] = [];
  private readonly lows: Uint32Array[] = [];

  constructor(private readonly values: Float64Array) {
    const bins = Math.ceil(values.length / BIN);
    let high = new Uint32Array(bins);
    let low = new Uint32Array(bins);
    for (let bin = 0; bin < bins; bin++) {
      const from = bin * BIN;
      const to = Math.min(from + BIN, values.length);
      high[bin] = this.scan(from, to, 1);
      low[bin] = this.scan(from, to, -1);
    }
    for (;;) {
      this.highs.push(high);
      this.lows.push(low);
      if (high.length <= 1) break;
      high = this.halve(high, 1);
      low = this.halve(low, -1);
    }
  }

  /** The first place in [from, to) where the column is highest. */
  highest(from: number, to: number): number {
    return this.query(from, to, this.highs, 1);
  }

  /** The first place in [from, to) where the column is lowest. */
  lowest(from: number, to: number): number {
    return this.query(from, to, this.lows, -1);
  }

  private better(a: number, b: number, sign: number): number {
    const difference = (this.values[b] - this.values[a]) * sign;
    return difference > 0 ? b : a;
  }

  private scan(from: number, to: number, sign: number): number {
    let best = from;
    for (let at = from + 1; at < to; at++) best = this.better(best, at, sign);
    return best;
  }

  private halve(below: Uint32Array, sign: number): Uint32Array<ArrayBuffer> {
    const level = new Uint32Array(Math.ceil(below.length / 2));
    for (let at = 0; at < level.length; at++) {
      const second = 2 * at + 1;
      level[at] = second < below.length ? this.better(below[2 * at], below[second], sign) : below[2 * at];
    }
    return level;
  }

  private query(from: number, to: number, levels: Uint32Array[], sign: number): number {
    let first = Math.ceil(from / BIN);
    let last = Math.floor(to / BIN);
    if (first >= last) return this.scan(from, Math.max(to, from + 1), sign);
    let best = from < first * BIN ? this.scan(from, first * BIN, sign) : levels[0][first];
    if (last * BIN < to) best = this.better(best, this.scan(last * BIN, to, sign), sign);
    for (let level = 0; first < last; level++) {
      if (first & 1) best = this.better(best, levels[level][first++], sign);
      if (last & 1) best = this.better(best, levels[level][--last], sign);
      first >>= 1;
      last >>= 1;
    }
    return best;
  }
}
