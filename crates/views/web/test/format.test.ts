import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { csv } from "../src/dom";
import { bytes, clock, count, percent, rate, seconds, time, worth } from "../src/format";

const SHOWN: Record<string, (value: number) => string> = { time, bytes, count, rate, percent };

test("figures look as on a terminal", () => {
  const lines = readFileSync("../../model/tests/figures.txt", "utf8").split("\n");
  const examples = lines.filter((line) => line !== "" && !line.startsWith("#"));
  assert.ok(examples.length > 40);
  for (const line of examples) {
    const [kind = "", value, text] = line.split("\t");
    assert.equal(SHOWN[kind]?.(Number(value)), text, line);
  }
  assert.deepEqual([seconds(1.5, 1), seconds(1.5, 0.1), seconds(0.01234, 0.0001)], ["2 s", "1.5 s", "0.0123 s"]);
  assert.equal(clock(0, 3600, 3), "01:00:00.000");
});

test("cells sort by what they are worth", () => {
  const cells = ["1.20 ms", "631 µs", "≥2.00 s", "13,920", "-", "4.00 KiB", "5.43 MiB"];
  const order = [...cells].sort((a, b) => Number(worth(a)) - Number(worth(b)));
  assert.deepEqual(order, ["-", "4.00 KiB", "13,920", "631 µs", "1.20 ms", "5.43 MiB", "≥2.00 s"]);
  assert.equal(worth("fio (×2)"), "fio (×2)");
  assert.equal(worth("3 files"), "3 files");
});

test("CSV keeps what a name holds", () => {
  assert.equal(csv([["a,b", 'say "x"'], ["line\nbreak", "plain"]]),
    '"a,b","say ""x"""\r\n"line\nbreak",plain\r\n');
});
