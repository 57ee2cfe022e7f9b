/** The lines of a chart in columns of another width, so that two watches share an axis. */

import type { Content } from "./panels";

/** The content of one watch. */
export interface Sampled {
  content: Pick<Content, "x"> & { lines: Pick<Content["lines"][number], "values">[] };
  /** How long the watch is, seconds. */
  length: number;
  /** How long a column of its content is, seconds. */
  every: number;
}

/** The sum of all lines, as means of columns of another width; null after the end of the watch. */
export function resampled(
  { content, length, every }: Sampled, width: number, columns: number,
): (number | null)[] {
  const sums = new Float64Array(columns);
  for (const line of content.lines) {
    Array.from(line.values).forEach((value, at) => {
      const from = content.x[at] ?? 0;
      const to = Math.min(from + every, length);
      for (let into = Math.floor(from / width + 1e-9); into < columns && into * width < to; into += 1) {
        const overlap = Math.min(to, (into + 1) * width) - Math.max(from, into * width);
        if (overlap > 0) sums[into] = (sums[into] as number) + (value ?? 0) * overlap;
      }
    });
  }
  return Array.from(sums, (sum, at) => {
    const known = Math.min(width, length - at * width);
    return known > 1e-9 ? sum / known : null;
  });
}
