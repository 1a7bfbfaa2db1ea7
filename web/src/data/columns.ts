// Columns of numbers: each value as the zigzag of its difference to the one before, seven bits a byte.
// Written by crates/viewer/src/page/columns.rs.

export interface Column {
  offset: number;
  count: number;
}

type Numbers = Float64Array | Uint32Array | Uint8Array;

function decode<T extends Numbers>(bytes: Uint8Array, column: Column, out: T): T {
  let at = column.offset;
  let before = 0;
  for (let row = 0; row < out.length; row++) {
    let byte = bytes[at++];
    const falls = byte & 1;
    let difference = (byte & 0x7f) >> 1;
    for (let scale = 64; byte >= 0x80; scale *= 128) {
      byte = bytes[at++];
      difference += (byte & 0x7f) * scale;
    }
    before = falls ? before - difference - 1 : before + difference;
    out[row] = before;
  }
  if (at > bytes.length) throw new Error("a column ends beyond the file: it is cut off or damaged");
  return out;
}

/** A column of bytes and addresses: whole numbers below 2^53. */
export function large(bytes: Uint8Array, column: Column): Float64Array {
  return decode(bytes, column, new Float64Array(column.count));
}

/** A column of indices and cursors. */
export function small(bytes: Uint8Array, column: Column): Uint32Array {
  return decode(bytes, column, new Uint32Array(column.count));
}

/** A column of very small numbers. */
export function tiny(bytes: Uint8Array, column: Column): Uint8Array {
  return decode(bytes, column, new Uint8Array(column.count));
}
