/** The layout of the data, as `html/tests.rs` writes it, and what is added up from it. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { DataError, SCHEMA, column, narrow, parse, read, type Chain, type Side } from "../src/data";
import { EMPTY, fromFragment, toFragment, toggled, type Filter } from "../src/filter";
import { grow } from "../src/flame";
import { chainOf } from "../src/pictures";
import { binFrom, binOf, namesOf, percentile, pointsOf, sumsOf } from "../src/sums";

const sample = async (name = "sample") => {
  const [side] = await read(readFileSync(`test/${name}.txt`, "utf8"));
  assert.ok(side);
  return side;
};

const sum = (numbers: ArrayLike<number>) => Array.from(numbers).reduce((all, value) => all + value, 0);

test("every table of the sample has its rows", async () => {
  const side = await sample();
  // The wait names no device; the last one stands for all that have no number.
  assert.deepEqual(side.devices, ["sda", "sdb", null, null]);
  assert.deepEqual(side.owners.map((it) => it?.process), ["dd", "cat", undefined], "most time first");
  assert.equal(side.chosen_of, 4);
  assert.equal(side.tables["points"]?.rows, 4);
  const counts = column(side, "requests", "count");
  assert.equal(sum(counts), 3);
  assert.throws(() => column(side, "requests", "no such"), DataError);
});

test("columns are as narrow as their numbers allow, and exact", async () => {
  const cases: [number[], unknown][] = [
    [[], Uint8Array], [[0, 255], Uint8Array], [[256, 1], Uint16Array], [[65_535], Uint16Array],
    [[1, 65_536], Uint32Array], [[4_294_967_295], Uint32Array], [[4_294_967_296, 3], Float64Array],
    [[-1], Float64Array], [[Number.MAX_SAFE_INTEGER], Float64Array],
  ];
  for (const [numbers, kind] of cases) {
    const found = narrow(Float64Array.from(numbers));
    assert.deepEqual([Array.from(found), found.constructor], [numbers, kind]);
  }
  const side = await sample();
  assert.ok(column(side, "requests", "kind") instanceof Uint8Array);
  // Each has its own memory: all were read by way of the same.
  assert.notDeepEqual(Array.from(column(side, "points", "start_us")), Array.from(column(side, "points", "time_us")));
});

test("sums are those of the rows that the sample was made of", async () => {
  const side = await sample();
  const all = sumsOf(side, EMPTY);
  // Two reads of 4 KiB and 64 KiB and a write of 8 KiB ended; a request is in flight.
  assert.deepEqual([all.total.count, all.total.bytes], [3, 4096 + 65536 + 8192]);
  assert.equal(all.total.time, 1_000_000 + 2_000_000 + 300_000_000);
  assert.equal(all.total.blocked, 3_000_000);
  assert.deepEqual(all.waits.map((it) => [it.name, it.total]), [["device", 2_000_000], ["dirty page limit", 1_000_000]]);
  const reads = sumsOf(side, { ...EMPTY, names: { operation: "read" } });
  assert.deepEqual([reads.total.count, reads.total.bytes], [2, 4096 + 65536]);
  const written = sumsOf(side, { ...EMPTY, names: { process: "dd", device: "sdb" } });
  assert.deepEqual([written.total.count, written.total.bytes], [1, 8192]);
  const file = sumsOf(side, { ...EMPTY, names: { file: "/srv/a" } });
  assert.equal(file.total.count, 1);
  const early = sumsOf(side, { ...EMPTY, time: [0, 500e6] });
  assert.equal(early.total.count, 1);
  const slow: Filter = { ...EMPTY, latency: [binOf(side, 100e6), 249] };
  assert.deepEqual([sumsOf(side, slow).total.count, pointsOf(side, "points", slow).length], [1, 1]);
});

test("a dimension shows what its own choice leaves out", async () => {
  const side = await sample();
  const { rows } = sumsOf(side, { ...EMPTY, names: { process: "dd" } });
  assert.deepEqual(rows.process.map((row) => [row.name, row.count]), [["dd", 1], ["cat", 2]]);
  assert.deepEqual(rows.device.map((row) => [row.name, row.count, row.blocked]), [["sdb", 1, 0], ["(none)", 0, 3_000_000]]);
  assert.ok(namesOf(side, "operation").includes("write"));
});

test("requests in flight add up to their time", async () => {
  const side = await sample();
  const { inFlight } = sumsOf(side, EMPTY);
  const ns = inFlight.reduce((sum, value) => sum + value, 0) * side.column_ns;
  // The open one began after 4 s of 10.
  assert.ok(Math.abs(ns - (303_000_000 + 6_000_000_000)) < 10, String(ns));
});

test("rows of a thinned watch count as often as they stand for", async () => {
  const side = await sample("thinned");
  assert.ok(side.estimated);
  const all = sumsOf(side, EMPTY);
  assert.deepEqual([all.total.count, all.total.bytes], [4 * 8 + 1, 4 * 8 * 4096 + 8192]);
  assert.deepEqual([all.total.time, all.total.blocked], [32_000_000 + 300_000_000, 12_000_000]);
  const weights = column(side, "points", "stands_for_100ths");
  assert.equal(sum(weights), 3300);
  assert.deepEqual(side.marks.map((it) => [it.kind, it.at_s]), [["thinning", 5]]);
  assert.ok(!(await sample()).estimated);
});

test("rates of devices are what the kernel counted, the rest is of rows", async () => {
  const side = await sample("counted");
  const all = sumsOf(side, EMPTY);
  assert.deepEqual([...all.counted], ["read"]);
  // 40 in each second, whichever rows were recorded; and sums are those of the tables.
  const perSecond = (sums: typeof all, from: number) => sum(
    (sums.counts[0] as Float64Array).filter((_, at) => Math.floor((at * side.column_ns) / 1e9) === from));
  for (let second = 0; second < 9; second++) {
    assert.ok(Math.abs(perSecond(all, second) - 40) <= 40 * (side.column_ns / 1e9) + 1, `${second}: ${perSecond(all, second)}`);
  }
  assert.deepEqual([sum(all.counts[0] ?? []), sum(all.bytes[0] ?? [])], [400, 400 * 4096]);
  assert.deepEqual([all.total.count, all.total.bytes], [400, 400 * 4096]);
  for (const names of [{ device: "sda" }, { operation: "read" }]) {
    assert.equal(sum(sumsOf(side, { ...EMPTY, names }).counts[0] ?? []), 400);
  }
  // A process, a file and a latency are in rows only: each stands for half of all.
  const [row] = all.rows.process;
  for (const names of [{ process: row?.name ?? "" }, { process: "dd" }, { file: "/srv/a", process: "cat" }]) {
    const sums = sumsOf(side, { ...EMPTY, names });
    assert.deepEqual([sums.counted.size, sum(sums.counts[0] ?? []), sums.total.count], [0, 200, 200]);
  }
  assert.equal(sumsOf(side, { ...EMPTY, latency: [0, 249] }).counted.size, 0);
  assert.equal(sumsOf(side, { ...EMPTY, names: { operation: "write" } }).counted.size, 0);
});

/** The time of all branches of a flame graph that a filter keeps. */
function flameTime(side: Side, filter: Filter): number {
  const root = { text: "all", kernel: false, time: 0, other: 0, children: new Map(), parent: null };
  grow(root, side, "code", filter, "time");
  return root.time;
}

test("a flame graph follows time, file and operation", async () => {
  const side = await sample("thinned");
  assert.equal(flameTime(side, EMPTY), side.code.time_ns);
  assert.equal(side.code.time_ns, 32_000_000 + 300_000_000);
  assert.equal(flameTime(side, { ...EMPTY, names: { file: "/srv/b" } }), 16_000_000);
  assert.equal(flameTime(side, { ...EMPTY, names: { operation: "write" } }), 300_000_000);
  // Reads completed at 0, 2, 4 and 6 s, the write at 1.3 s; steps are a seventy-fifth of the watch at most.
  assert.ok(side.code.every * side.column_ns < 10e9 / 30);
  assert.equal(flameTime(side, { ...EMPTY, time: [3.5e9, 10e9] }), 16_000_000);
  assert.equal(flameTime(side, { ...EMPTY, time: [1.2e9, 1.4e9] }), 300_000_000);
});

test("the picture of a finding is of its own chain", () => {
  const chain = (process: string, file: string | null): Chain => ({
    time_ns: 1, class: "journal", device: "sda", file,
    steps: [{ process: `${process} (7)`, thread: process, threads: 1, known_by: null }],
  });
  const chains = [chain("db", "/a"), chain("web", "/b")];
  const found = (data: Record<string, string>) => chainOf(chains, data);
  assert.deepEqual(found({ process: "web" }), [chains[1], true]);
  assert.deepEqual(found({ file: "/b", device: "sda" }), [chains[1], true]);
  assert.deepEqual(found({ device: "sda" }), [chains[0], false]);
  assert.deepEqual(found({}), [chains[0], false]);
  assert.deepEqual(chainOf([], {}), [undefined, false]);
});

test("a percentile is an eighth of itself from the truth at most, and between those of its bin", async () => {
  const side = await sample();
  for (const ns of [1_500, 100_000, 2_000_000, 7e9]) {
    const bin = binOf(side, ns);
    assert.ok(binFrom(side, bin) <= ns && ns < binFrom(side, bin + 1));
    const bins = new Float64Array(250);
    bins[bin] = 9;
    const found = percentile(side, bins, 0, 0.5) ?? 0;
    assert.ok(Math.abs(found - ns) <= ns * 0.126, `${ns}: ${found}`);
    const part = (share: number) => percentile(side, bins, 0, share) ?? 0;
    assert.ok(binFrom(side, bin) < part(0.1) && part(0.1) < part(0.5) && part(0.5) < part(0.9));
    assert.equal(part(1), binFrom(side, bin + 1));
  }
  assert.equal(percentile(side, new Float64Array(250), 0, 0.5), null);
});

test("a selection survives the address", () => {
  const filter: Filter = {
    time: [1_000_000, 2_000_000_000], latency: [3, 90],
    names: { process: "a&b=c #%", file: "/srv/\u{202e}x?y" },
  };
  assert.deepEqual(fromFragment(`#${toFragment(filter)}`), filter);
  assert.deepEqual(fromFragment("#t=9-1&l=x&nonsense"), EMPTY);
  assert.deepEqual(fromFragment(""), EMPTY);
  const once = toggled(EMPTY, "device", "sda");
  assert.deepEqual(once.names, { device: "sda" });
  assert.deepEqual(toggled(once, "device", "sda"), EMPTY);
});

test("data of another layout, or cut off, is refused in words", () => {
  const head = new TextEncoder().encode(JSON.stringify({ schema: 99, sides: [] }));
  const bytes = new Uint8Array(4 + head.length);
  new DataView(bytes.buffer).setUint32(0, head.length, true);
  bytes.set(head, 4);
  assert.throws(() => parse(bytes), /layout 99/);
  const side = { order: ["t"], tables: { t: { rows: 3, columns: [["x", "plain"]] } } };
  const cut = new TextEncoder().encode(JSON.stringify({ schema: SCHEMA, sides: [side] }));
  const short = new Uint8Array(4 + cut.length + 1);
  new DataView(short.buffer).setUint32(0, cut.length, true);
  short.set(cut, 4);
  assert.throws(() => parse(short), /too early/);
});
