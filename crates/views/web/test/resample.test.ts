import assert from "node:assert/strict";
import { test } from "node:test";
import { resampled } from "../src/resample";

/** A watch of so many columns, with the same rate all the time. */
function even(columns: number, every: number, rate: number, length = columns * every) {
  const x = Array.from({ length: columns }, (_, at) => at * every);
  return { content: { x, lines: [{ values: Array.from(x, () => rate) }] }, length, every };
}

test("a rate stays where it was, however wide its columns are", () => {
  // Few requests have wide columns, many have narrow ones: both reach to their own end.
  assert.deepEqual(resampled(even(4, 2, 10), 2, 4), [10, 10, 10, 10]);
  assert.deepEqual(resampled(even(16, 0.5, 7), 2, 4), [7, 7, 7, 7]);
  assert.deepEqual(resampled(even(5, 2, 3, 9), 2, 5), [3, 3, 3, 3, 3]);
});

test("after the end of the shorter watch nothing is known", () => {
  assert.deepEqual(resampled(even(8, 0.5, 4), 2, 4), [4, 4, null, null]);
});
