import assert from "node:assert/strict";
import { test } from "node:test";
import { csv } from "../src/dom";
import { bytes, clock, count, percent, rate, seconds, time, worth } from "../src/format";

test("figures look as on a terminal", () => {
  assert.deepEqual([0, 999, 1_000, 9_996, 999_499, 15e6, 1.15e9].map(time),
    ["0 ns", "999 ns", "1.00 µs", "10.0 µs", "999 µs", "15.0 ms", "1.15 s"]);
  assert.deepEqual([0, 512, 1023, 1024, 5_693_440, 2 ** 30].map(bytes),
    ["0 B", "512 B", "1023 B", "1.00 KiB", "5.43 MiB", "1.00 GiB"]);
  assert.deepEqual([999, 13_920, 12_345_678].map(count), ["999", "13,920", "12.3 M"]);
  assert.deepEqual([0, 0.1, 12, 999.6].map(rate), ["0", "0.10", "12.0", "1,000"]);
  assert.deepEqual([0, 0.0001, 0.876, 1].map(percent), ["0 %", "<0.1 %", "87.6 %", "100 %"]);
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
