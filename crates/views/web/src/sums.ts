/** What charts show of a filtered watch. Cells hold exact sums; here they are added up. */

import { column, type Side } from "./data";
import { DIMENSIONS, NONE, OTHERS, type Dimension, type Filter } from "./filter";

/** The operations that charts distinguish. */
export const OPERATIONS = ["read", "write", "flush", "discard", "other"] as const;
export const STAGES = ["q2g", "g2i", "i2d", "g2d", "d2c"] as const;

/** Where a latency bin begins, nanoseconds. */
export function binFrom(side: Side, bin: number): number {
  const { per_octave, first_octave } = side.latency;
  if (bin <= 0) return 0;
  const [octave, part] = [Math.floor(bin / per_octave), bin % per_octave];
  return (2 ** (first_octave + octave) * (per_octave + part)) / per_octave;
}

/** The bin that a latency lies in. */
export function binOf(side: Side, ns: number): number {
  let bin = 0;
  while (bin < side.latency.none && binFrom(side, bin + 1) <= ns) bin++;
  return bin;
}

export function operationOf(word: string): number {
  const at = (OPERATIONS as readonly string[]).indexOf(word);
  if (at >= 0) return at;
  return word === "write_zeroes" || word === "secure_erase" ? 1 : 4;
}

/** The name of each number of a dimension. */
export function namesOf(side: Side, dimension: Dimension): string[] {
  const last = (list: unknown[], at: number) => at === list.length - 1;
  switch (dimension) {
    case "device":
      return side.devices.map((name) => name ?? NONE);
    case "process":
      return side.owners.map((owner, at) =>
        last(side.owners, at) ? OTHERS : (owner?.process ?? "(kernel)"));
    case "container":
      return side.owners.map((owner, at) =>
        last(side.owners, at) ? OTHERS : (owner?.container ?? NONE));
    case "file":
      return side.files.map((name, at) => (last(side.files, at) ? OTHERS : (name ?? NONE)));
    case "operation":
      return side.kinds.map(([operation, origin]) =>
        operation === origin ? operation : `${operation}: ${origin}`);
  }
}

/** For each number of a dimension, whether a filter keeps it. */
export function keptNames(side: Side, filter: Filter, dimension: Dimension): Uint8Array {
  const wanted = filter.names[dimension];
  const keeps = (name: string) =>
    wanted === undefined || name === wanted ||
    (dimension === "operation" && name.startsWith(`${wanted}: `));
  return Uint8Array.from(namesOf(side, dimension), (name) => Number(keeps(name)));
}

/** Which numbers a filter keeps, by dimension; and which of a device's layers count. */
class Kept {
  readonly by: Record<Dimension, Uint8Array>;
  readonly top: Uint8Array;

  constructor(readonly side: Side, readonly filter: Filter) {
    const by = {} as Record<Dimension, Uint8Array>;
    for (const dimension of DIMENSIONS) by[dimension] = keptNames(side, filter, dimension);
    this.by = by;
    // What serves a device above is counted there, unless one device is looked at by itself.
    const all = filter.names.device !== undefined;
    this.top = Uint8Array.from(side.kinds, ([, , layer]) => Number(all || layer === "top"));
  }
}

/** Sums of one name of a dimension. */
export interface Row {
  name: string;
  count: number;
  bytes: number;
  time: number;
  blocked: number;
  latencies: Float64Array;
}

/** Everything that charts show. */
export interface Sums {
  side: Side;
  columns: number;
  /** By operation, then by column. */
  counts: Float64Array[];
  bytes: Float64Array[];
  /** Requests in flight on average, by column. */
  inFlight: Float64Array;
  /** Threads blocked on average, by wait class, then by column; the classes with most time first. */
  waits: { name: string; values: Float64Array; total: number }[];
  /** Requests by column and latency bin: bins of one column lie together. */
  heat: Float64Array;
  /** Of the selected time and latencies: by latency bin, the requests and the share of each stage. */
  latencies: Float64Array;
  stages: Float64Array[];
  /** Requests by operation and exponent of their size. */
  sizes: Float64Array[];
  total: { count: number; bytes: number; time: number; blocked: number };
  rows: Record<Dimension, Row[]>;
  /** Which operations' counts and bytes are the kernel's own, of devices. */
  counted: Set<string>;
}

const BINS = 250;
const SIZES = 64;

interface Breakdown {
  names: string[];
  rows: Map<string, Row>;
}

function row(breakdown: Breakdown, number: number): Row {
  const name = breakdown.names[number] ?? OTHERS;
  let found = breakdown.rows.get(name);
  if (!found) {
    found = { name, count: 0, bytes: 0, time: 0, blocked: 0, latencies: new Float64Array(BINS) };
    breakdown.rows.set(name, found);
  }
  return found;
}

function empty(side: Side): Sums {
  const columns = Math.max(1, Math.ceil(side.length_ns / side.column_ns));
  const perOperation = (length: number) => OPERATIONS.map(() => new Float64Array(length));
  return {
    side,
    columns,
    counts: perOperation(columns),
    bytes: perOperation(columns),
    inFlight: new Float64Array(columns),
    waits: [],
    heat: new Float64Array(columns * BINS),
    latencies: new Float64Array(BINS),
    stages: STAGES.map(() => new Float64Array(BINS)),
    sizes: perOperation(SIZES),
    total: { count: 0, bytes: 0, time: 0, blocked: 0 },
    rows: {} as Sums["rows"],
    counted: new Set(),
  };
}

/** The columns that a time lies in: from the first to before the last. */
export function columnsOf(side: Side, time: Filter["time"]): [number, number] {
  if (!time) return [0, Infinity];
  const last = Math.max(Math.floor(time[0] / side.column_ns) + 1, Math.ceil(time[1] / side.column_ns));
  return [Math.floor(time[0] / side.column_ns), last];
}

/** Those sums with nothing in them, in the memory that they have. */
function cleared(sums: Sums): Sums {
  for (const values of [...sums.counts, ...sums.bytes, ...sums.stages, ...sums.sizes]) values.fill(0);
  for (const values of [sums.inFlight, sums.heat, sums.latencies]) values.fill(0);
  const total = { count: 0, bytes: 0, time: 0, blocked: 0 };
  return { ...sums, waits: [], total, rows: {} as Sums["rows"], counted: new Set() };
}

/**
 * Adds up all cells that a filter keeps. Sums of `before`, of the same watch, are overwritten: they have
 * megabytes, and a selection that moves needs new ones for each picture.
 */
export function sumsOf(side: Side, filter: Filter, before?: Sums): Sums {
  const sums = before ? cleared(before) : empty(side);
  const kept = new Kept(side, filter);
  const breakdowns = {} as Record<Dimension, Breakdown>;
  for (const dimension of DIMENSIONS) {
    breakdowns[dimension] = { names: namesOf(side, dimension), rows: new Map() };
  }
  addRequests(sums, kept, breakdowns, addCounted(sums, kept));
  addInFlight(sums, kept);
  addWaits(sums, kept, breakdowns);
  for (const dimension of DIMENSIONS) {
    const rows = [...breakdowns[dimension].rows.values()];
    rows.sort((a, b) => b.time - a.time || b.blocked - a.blocked || b.count - a.count);
    sums.rows[dimension] = rows;
  }
  return sums;
}

/** The only dimension that a cell is filtered out by: -1 for none, -2 for several. */
function outBy(kept: Kept, numbers: readonly number[]): number {
  let out = -1;
  for (let at = 0; at < DIMENSIONS.length; at++) {
    const dimension = DIMENSIONS[at] as Dimension;
    if (kept.by[dimension][numbers[at] ?? 0]) continue;
    if (out !== -1) return -2;
    out = at;
  }
  return out;
}

/** Whether only rows have what a filter keeps: the kernel counts by device and operation alone. */
function needsRows({ names, latency }: Filter): boolean {
  const { operation } = names;
  const isOne = operation === undefined || (OPERATIONS as readonly string[]).includes(operation);
  const chosen = Object.keys(names).filter((it) => it !== "device" && it !== "operation");
  return latency !== null || chosen.length > 0 || !isOne;
}

/** Devices with an operation that the kernel counted, as numbers. */
const countedKey = (device: number, operation: number) => device * OPERATIONS.length + operation;

/** Adds what the kernel counted by column, which sums of rows would estimate; returns of what. */
function addCounted(sums: Sums, kept: Kept): Set<number> {
  const { side, filter } = { side: sums.side, filter: kept.filter };
  const found = new Set<number>();
  if (needsRows(filter)) return found;
  const of = (name: string) => column(side, "counted", name);
  const [columns, devices, operations, lower, count, bytes] =
    [of("column"), of("device"), of("operation"), of("lower"), of("count"), of("bytes")] as const;
  for (let at = 0; at < count.length; at++) {
    const [device, operation] = [devices[at] as number, operations[at] as number];
    const word = OPERATIONS[operation] ?? "other";
    if (!kept.by.device[device] || (filter.names.operation ?? word) !== word) continue;
    found.add(countedKey(device, operation));
    if (lower[at] !== 0 && filter.names.device === undefined) continue;
    sums.counted.add(word);
    add(sums.counts[operation], columns[at] as number, count[at] as number);
    add(sums.bytes[operation], columns[at] as number, bytes[at] as number);
  }
  return found;
}

function addRequests(
  sums: Sums, kept: Kept, breakdowns: Record<Dimension, Breakdown>, counted: Set<number>,
): void {
  const { side } = sums;
  const of = (name: string) => column(side, "requests", name);
  const [columns, devices, owners, files, kinds] =
    [of("column"), of("device"), of("owner"), of("file"), of("kind")] as const;
  const [latency, size, count, bytes, time] =
    [of("latency"), of("size"), of("count"), of("bytes"), of("time_us")] as const;
  const stages = STAGES.map(of);
  const operations = side.kinds.map(([word]) => operationOf(word));
  const [from, to] = columnsOf(side, kept.filter.time);
  const [least, most] = kept.filter.latency ?? [0, 255];
  const numbers = [0, 0, 0, 0, 0];
  for (let at = 0; at < count.length; at++) {
    const kind = kinds[at] as number;
    if (!kept.top[kind]) continue;
    const bin = latency[at] as number;
    if (bin < least || bin > most || (kept.filter.latency && bin >= BINS)) continue;
    numbers[0] = devices[at] as number;
    numbers[1] = numbers[2] = owners[at] as number;
    numbers[3] = files[at] as number;
    numbers[4] = kind;
    const out = outBy(kept, numbers);
    if (out === -2) continue;
    const place = columns[at] as number;
    const [n, b, t] = [count[at] as number, bytes[at] as number, (time[at] as number) * 1e3];
    const inTime = place >= from && place < to;
    if (inTime) {
      for (let dimension = 0; dimension < DIMENSIONS.length; dimension++) {
        if (out !== -1 && out !== dimension) continue;
        const into = row(breakdowns[DIMENSIONS[dimension] as Dimension], numbers[dimension] as number);
        into.count += n;
        into.bytes += b;
        into.time += t;
        if (bin < BINS) into.latencies[bin] = (into.latencies[bin] as number) + n;
      }
    }
    if (out !== -1) continue;
    const operation = operations[kind] as number;
    if (!counted.has(countedKey(devices[at] as number, operation))) {
      add(sums.counts[operation], place, n);
      add(sums.bytes[operation], place, b);
    }
    if (bin < BINS) add(sums.heat, place * BINS + bin, n);
    if (!inTime) continue;
    sums.total.count += n;
    sums.total.bytes += b;
    sums.total.time += t;
    add(sums.sizes[operation], size[at] as number, n);
    if (bin >= BINS) continue;
    add(sums.latencies, bin, n);
    for (let stage = 0; stage < STAGES.length; stage++) {
      add(sums.stages[stage], bin, ((stages[stage]?.[at] ?? 0) / 255) * t);
    }
  }
}

function add(into: Float64Array | undefined, at: number, value: number): void {
  if (into) into[at] = (into[at] ?? 0) + value;
}

/** Tells whether a filter keeps a row of a table, whatever the row's time and latency. */
function rowFilter(kept: Kept, table: string): (at: number) => boolean {
  const of = (name: string) => column(kept.side, table, name);
  const [devices, owners, files, kinds] =
    [of("device"), of("owner"), of("file"), of("kind")] as const;
  const numbers = [0, 0, 0, 0, 0];
  return (at) => {
    const kind = kinds[at] as number;
    if (!kept.top[kind]) return false;
    numbers[0] = devices[at] as number;
    numbers[1] = numbers[2] = owners[at] as number;
    numbers[3] = files[at] as number;
    numbers[4] = kind;
    return outBy(kept, numbers) === -1;
  };
}

function addInFlight(sums: Sums, kept: Kept): void {
  const { side } = sums;
  const columns = column(side, "in_flight", "column");
  const time = column(side, "in_flight", "time_ns");
  const keeps = rowFilter(kept, "in_flight");
  for (let at = 0; at < time.length; at++) {
    if (!keeps(at)) continue;
    add(sums.inFlight, columns[at] as number, (time[at] as number) / side.column_ns);
  }
}

/** Waits have no operation and no latency of requests: those filters do not touch them. */
function addWaits(sums: Sums, kept: Kept, breakdowns: Record<Dimension, Breakdown>): void {
  const { side } = sums;
  const of = (name: string) => column(side, "waits", name);
  const [columns, devices, owners, files, kinds, time] =
    [of("column"), of("device"), of("owner"), of("file"), of("kind"), of("time_ns")] as const;
  const classes = side.classes.map(([, phrase]) => ({
    name: phrase, values: new Float64Array(sums.columns), total: 0,
  }));
  const [from, to] = columnsOf(side, kept.filter.time);
  const numbers = [0, 0, 0, 0];
  for (let at = 0; at < time.length; at++) {
    numbers[0] = devices[at] as number;
    numbers[1] = numbers[2] = owners[at] as number;
    numbers[3] = files[at] as number;
    let out = -1;
    for (let dimension = 0; dimension < numbers.length && out !== -2; dimension++) {
      const name = DIMENSIONS[dimension] as Dimension;
      if (!kept.by[name][numbers[dimension] as number]) out = out === -1 ? dimension : -2;
    }
    if (out === -2) continue;
    const [place, t] = [columns[at] as number, time[at] as number];
    if (place >= from && place < to) {
      for (let dimension = 0; dimension < numbers.length; dimension++) {
        if (out !== -1 && out !== dimension) continue;
        row(breakdowns[DIMENSIONS[dimension] as Dimension], numbers[dimension] as number).blocked += t;
      }
      if (out === -1) sums.total.blocked += t;
    }
    const found = classes[kinds[at] as number];
    if (out !== -1 || !found) continue;
    found.total += t;
    add(found.values, place, t / side.column_ns);
  }
  sums.waits = classes.filter((it) => it.total > 0).sort((a, b) => b.total - a.total);
}

/** The latency that a share of the requests in `bins` took at most, as if those of a bin were spread evenly. */
export function percentile(
  side: Side, bins: Float64Array, from: number, share: number,
): number | null {
  let all = 0;
  for (let bin = 0; bin < BINS; bin++) all += bins[from + bin] ?? 0;
  if (all === 0) return null;
  let rest = Math.max(1, Math.ceil(all * share));
  for (let bin = 0; bin < BINS; bin++) {
    const own = bins[from + bin] ?? 0;
    rest -= own;
    if (rest <= 0) {
      const [low, high] = [binFrom(side, bin), binFrom(side, bin + 1)];
      return low + (high - low) * (own + rest) / own;
    }
  }
  return null;
}

/** Percentiles by group of columns; `every` columns make one. */
export function percentiles(sums: Sums, share: number, every: number): (number | null)[] {
  const result: (number | null)[] = [];
  const group = new Float64Array(BINS);
  for (let first = 0; first < sums.columns; first += every) {
    group.fill(0);
    for (let at = first; at < Math.min(first + every, sums.columns); at++) {
      for (let bin = 0; bin < BINS; bin++) add(group, bin, sums.heat[at * BINS + bin] as number);
    }
    result.push(percentile(sums.side, group, 0, share));
  }
  return result;
}

export const LATENCY_BINS = BINS;

/** Single requests that a filter keeps, as positions in the table. */
export function pointsOf(side: Side, table: "points" | "slowest", filter: Filter): number[] {
  const start = column(side, table, "start_us");
  const time = column(side, table, "time_us");
  const keeps = rowFilter(new Kept(side, filter), table);
  const found: number[] = [];
  for (let at = 0; at < start.length; at++) {
    if (!keeps(at)) continue;
    const took = time[at] as number;
    const end = ((start[at] as number) + Math.max(took - 1, 0)) * 1e3;
    if (filter.time && (end < filter.time[0] || end >= filter.time[1])) continue;
    if (filter.latency) {
      const bin = took === 0 ? 255 : binOf(side, (took - 1) * 1e3);
      if (bin < filter.latency[0] || bin > filter.latency[1]) continue;
    }
    found.push(at);
  }
  return found;
}
