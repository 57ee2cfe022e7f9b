/**
 * The page's data: a length, JSON with names and the list of columns, then the columns' bytes. The
 * other side is `html/data.rs`; a test of each holds the schema.
 */

export const SCHEMA = 3;

/** The numbers of a column, in the narrowest array that holds them all. */
export type Column = ArrayLike<number>;

/** Columns by name; every one has `rows` numbers. */
export interface Table {
  rows: number;
  columns: Record<string, Column>;
}

export interface Owner {
  process: string | null;
  container: string | null;
}

export interface Flames {
  time_ns: number;
  /** So many columns of the charts are one of its own. */
  every: number;
  /** Whether files are distinguished. */
  by_file: boolean;
  /** The position of the caller and 1; 0 for a process. */
  parents: number[];
  kernel: number[];
  texts: string[];
}

export interface Series {
  metric: string;
  sentence: string;
  unit: "bytes" | "ns" | "";
  counter: boolean;
  /** Seconds since the first column begins, and the value. */
  points: [number, number][];
}

export interface Mark {
  kind: "setting" | "change" | "burst" | "thinning";
  at_s: number;
  text: string;
}

/** A round number of requests per second that a device stayed at. */
export interface Limit {
  device: string;
  from_s: number;
  to_s: number;
  requests_per_s: number;
}

/** Requests of a device that are either fast or many times slower. */
export interface Modes {
  device: string;
  operation: string;
  fast_ns: number;
  slow_ns: number;
  slow_share: number;
}

export interface ChainStep {
  process: string;
  thread: string;
  threads: number;
  known_by: string | null;
}

export interface Chain {
  time_ns: number;
  steps: ChainStep[];
  class: string;
  device: string | null;
  file: string | null;
}

export interface Blame {
  waiters: string[];
  waited_ns: number[];
  culprits: string[];
  times_ns: number[][];
}

/** One watch. */
export interface Side {
  name: string | null;
  start_unix_ms: number | null;
  utc_offset_s: number;
  length_ns: number;
  column_ns: number;
  latency: { per_octave: number; first_octave: number; none: number };
  devices: (string | null)[];
  owners: (Owner | null)[];
  files: (string | null)[];
  /** Operation, origin, layer. */
  kinds: [string, string, string][];
  /** The word and the phrase. */
  classes: [string, string][];
  chosen_of: number;
  /** Whether rows stand for others that were not recorded. */
  estimated: boolean;
  open_requests: number;
  tables: Record<string, Table>;
  blocked: Flames;
  code: Flames;
  series: Series[];
  marks: Mark[];
  limits: Limit[];
  modes: Modes[];
  chains: Chain[];
  blame: Blame | null;
}

interface WrittenTable {
  rows: number;
  columns: [string, "plain" | "delta"][];
}

type WrittenSide = Omit<Side, "tables"> & {
  order: string[];
  tables: Record<string, WrittenTable>;
};

/** Why there are no charts, as a person reads it. */
export class DataError extends Error {}

/** Reads numbers one behind the other. */
class Reader {
  #at = 0;
  constructor(readonly bytes: Uint8Array) {}

  /** A number as LEB128; up to 2 to the power of 53 it is exact. */
  number(): number {
    let value = 0;
    let factor = 1;
    for (;;) {
      const byte = this.bytes[this.#at++];
      if (byte === undefined) throw new DataError("The charts' data ends too early.");
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
  }

  /** Reads a column of as many rows as `into` has. */
  column(into: Float64Array, encoding: "plain" | "delta"): Column {
    let before = 0;
    for (let row = 0; row < into.length; row++) {
      const number = this.number();
      if (encoding === "delta") {
        before += number % 2 === 1 ? -(number + 1) / 2 : number / 2;
        into[row] = before;
      } else {
        into[row] = number;
      }
    }
    return narrow(into);
  }
}

/** A copy of whole numbers in the narrowest array that holds them exactly. */
export function narrow(numbers: Float64Array): Column {
  let [least, most] = [0, 0];
  for (const number of numbers) {
    if (number < least) least = number;
    if (number > most) most = number;
  }
  if (least < 0 || most > 0xffff_ffff) return numbers.slice();
  if (most > 0xffff) return new Uint32Array(numbers);
  return most > 0xff ? new Uint16Array(numbers) : new Uint8Array(numbers);
}

/** The watches in bytes that are not compressed any more. */
export function parse(bytes: Uint8Array): Side[] {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const text = new TextDecoder().decode(bytes.subarray(4, 4 + length));
  const head = JSON.parse(text) as { schema: number; sides: WrittenSide[] };
  if (head.schema !== SCHEMA) {
    throw new DataError(`The charts' data has layout ${head.schema}; this page reads ${SCHEMA}.`);
  }
  const reader = new Reader(bytes.subarray(4 + length));
  const rows = head.sides.flatMap((side) => Object.values(side.tables).map((table) => table.rows));
  // Every column passes through it.
  const wide = new Float64Array(Math.max(0, ...rows));
  return head.sides.map((side) => {
    const tables: Record<string, Table> = {};
    for (const name of side.order) {
      const written = side.tables[name];
      if (!written) throw new DataError(`The charts' data lacks the table ${name}.`);
      const columns: Record<string, Column> = {};
      for (const [column, encoding] of written.columns) {
        columns[column] = reader.column(wide.subarray(0, written.rows), encoding);
      }
      tables[name] = { rows: written.rows, columns };
    }
    return { ...side, tables };
  });
}

/** The watches in a page's text. */
export async function read(text: string): Promise<Side[]> {
  if (typeof DecompressionStream === "undefined") {
    throw new DataError(
      "This browser cannot unpack the charts' data: it has no DecompressionStream, which " +
        "Chrome 80, Firefox 113 and Safari 16.4 brought. The answer and the tables need no charts.",
    );
  }
  const letters = atob(text.trim());
  const packed = new Uint8Array(letters.length);
  for (let at = 0; at < packed.length; at++) packed[at] = letters.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return parse(new Uint8Array(await new Response(stream).arrayBuffer()));
}

/** A column of a table; a missing one is a mistake of this page. */
export function column(side: Side, table: string, name: string): Column {
  const found = side.tables[table]?.columns[name];
  if (!found) throw new DataError(`The charts' data lacks ${table}.${name}.`);
  return found;
}
