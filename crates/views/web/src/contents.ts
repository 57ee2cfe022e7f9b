/** What each chart over time shows of sums. */

import type uPlot from "uplot";
import { OPERATION_COLOURS, colour, heat, isDark, nth } from "./colours";
import { column, type Series, type Side } from "./data";
import { count, time } from "./format";
import { NONE, OTHERS } from "./filter";
import { LATENCY_BINS, OPERATIONS, binFrom, binOf, namesOf, percentiles, type Sums } from "./sums";
import type { Content, Line } from "./panels";

/** The beginning of each column, seconds. */
export function columnTimes(sums: Sums): number[] {
  const width = sums.side.column_ns / 1e9;
  return Array.from({ length: sums.columns }, (_, at) => at * width);
}

/** So many columns make one that each has a few requests, and a window still a hundred of them. */
function grouping(sums: Sums, window: [number, number]): number {
  const all = sums.counts.reduce((sum, values) => sum + values.reduce((part, value) => part + value, 0), 0);
  const share = Math.max((window[1] - window[0]) / (sums.side.length_ns / 1e9), 1e-6);
  const few = all > 0 ? (6 * sums.columns) / all : 1;
  const most = Math.max(1, (sums.columns * share) / 150);
  return 2 ** Math.floor(Math.log2(Math.max(1, Math.min(few, most))));
}

/** A figure of each operation, per second. */
export function byOperation(sums: Sums, values: Float64Array[], window: [number, number]): Content {
  const every = grouping(sums, window);
  const width = (sums.side.column_ns / 1e9) * every;
  const groups = Math.ceil(sums.columns / every);
  const length = (at: number) => Math.max(Math.min(width, sums.side.length_ns / 1e9 - at * width), width / 10);
  const lines: Line[] = [];
  OPERATIONS.forEach((operation, at) => {
    const own = values[at];
    if (!own?.some((value) => value > 0)) return;
    const rates = new Float64Array(groups);
    own.forEach((value, place) => {
      const into = Math.floor(place / every);
      rates[into] = (rates[into] as number) + value / length(into);
    });
    lines.push({ label: operation, colour: colour(OPERATION_COLOURS[at] ?? "grey"), values: rates, fill: true });
  });
  return { x: Array.from({ length: groups }, (_, at) => at * width), lines, note: originOf(sums) };
}

/** What the rates of a watch of which not all was recorded are made from. */
function originOf({ side, counted }: Sums): string {
  if (!side.estimated) return "";
  return counted.size > 0 ? `${[...counted].join("s, ")}s: counted by the kernel` : "estimated from recorded requests";
}

export function inFlight(sums: Sums): Content {
  const any = sums.inFlight.some((value) => value > 0);
  const line = { label: "in flight", colour: colour("blue"), values: sums.inFlight, fill: true };
  return { x: columnTimes(sums), lines: any ? [line] : [] };
}

/** Threads blocked, by wait class, one on top of the other. */
export function waits(sums: Sums): Content {
  const shown = sums.waits.slice(0, 7);
  const rest = sums.waits.slice(7);
  const classes = shown.map(({ name, values }) => ({ name, values }));
  if (rest.length > 0) {
    const values = new Float64Array(sums.columns);
    for (const one of rest) one.values.forEach((value, at) => (values[at] = (values[at] as number) + value));
    classes.push({ name: "others", values });
  }
  const below = new Float64Array(sums.columns);
  const tops = classes.map(({ values }) => {
    values.forEach((value, at) => (below[at] = (below[at] as number) + value));
    return Float64Array.from(below);
  });
  const x = columnTimes(sums);
  const draw = (plot: uPlot) => {
    // The highest first, so that each hides what is not its own.
    for (let at = tops.length - 1; at >= 0; at--) {
      area(plot, x, tops[at] as Float64Array, sums.side.column_ns / 1e9, nth(at));
    }
  };
  const most = below.reduce((most, value) => Math.max(most, value), 0);
  return {
    x, draw, range: [0, Math.max(most * 1.08, 1e-6)],
    lines: classes.map(({ name, values }, at) => ({ label: name, colour: nth(at), values, silent: true })),
  };
}

function area(plot: uPlot, x: number[], top: Float64Array, width: number, fill: string): void {
  const { ctx } = plot;
  const [left, right] = [plot.bbox.left, plot.bbox.left + plot.bbox.width];
  const base = plot.valToPos(0, "y", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  ctx.fillStyle = fill;
  for (let at = 0; at < x.length; at++) {
    const value = top[at] as number;
    if (value <= 0) continue;
    const from = plot.valToPos(x[at] as number, "x", true);
    const to = plot.valToPos((x[at] as number) + width, "x", true);
    if (to < left || from > right) continue;
    const y = plot.valToPos(value, "y", true);
    ctx.fillRect(Math.floor(from), y, Math.ceil(to) - Math.floor(from), base - y);
  }
  ctx.restore();
}

/** p50, p99 and the longest, over groups of columns that have enough requests. */
export function latencyLines(sums: Sums): Content {
  const all = sums.heat.reduce((sum, value) => sum + value, 0);
  if (all === 0) return { x: [], lines: [] };
  const groups = Math.max(20, Math.min(240, Math.floor(all / 40)));
  const every = Math.max(1, Math.ceil(sums.columns / groups));
  const width = (sums.side.column_ns * every) / 1e9;
  const figures = [0.5, 0.99, 1].map((share) => percentiles(sums, share, every));
  const x = (figures[0] ?? []).map((_, at) => at * width + width / 2);
  const names = ["p50", "p99", "max"];
  const colours = [colour("blue"), colour("orange"), colour("red")];
  return {
    x, note: `per ${time(width * 1e9)}`,
    lines: figures.map((values, at) => ({ label: names[at] ?? "", colour: colours[at] ?? "", values })),
  };
}

/** The bins that hold anything, with some room. */
export function usedBins(heatMap: Float64Array): [number, number] {
  let [least, most] = [LATENCY_BINS, 0];
  for (let at = 0; at < heatMap.length; at++) {
    if (!heatMap[at]) continue;
    least = Math.min(least, at % LATENCY_BINS);
    most = Math.max(most, at % LATENCY_BINS);
  }
  return [Math.max(0, least - 2), Math.min(LATENCY_BINS - 1, most + 3)];
}

/** Requests by time and latency: the darker, the more. `bins` also says what another side has. */
export function heatMap(sums: Sums, bins: [number, number]): Content {
  const { side, heat: cells } = sums;
  if (!cells.some((value) => value > 0)) return { x: [], lines: [] };
  const lowest = (bin: number) => Math.max(binFrom(side, bin), 900);
  const draw = (plot: uPlot) => drawHeat(plot, sums, lowest);
  const width = side.column_ns / 1e9;
  return {
    x: columnTimes(sums), lines: [], draw,
    range: [lowest(bins[0]), binFrom(side, bins[1])],
    at: (x, y) => {
      const [place, bin] = [Math.floor(x / width), binOf(side, y)];
      const found = cells[place * LATENCY_BINS + bin] ?? 0;
      return `${time(binFrom(side, bin))} to ${time(binFrom(side, bin + 1))}: ${count(found)} requests`;
    },
  };
}

/** The sums of what is drawn as one column; the next picture overwrites them. */
let drawnSums = new Float64Array(0);

function drawHeat(plot: uPlot, sums: Sums, lowest: (bin: number) => number): void {
  const { ctx, bbox } = plot;
  const { side, heat: cells } = sums;
  const scale = plot.scales.x;
  const [from, to] = [scale?.min ?? 0, scale?.max ?? 0];
  const width = side.column_ns / 1e9;
  // So many columns become one that each is at least two pixels wide.
  const every = Math.max(1, Math.ceil((2 * devicePixelRatio * (to - from)) / width / bbox.width));
  const first = Math.max(0, Math.floor(from / width / every) * every);
  const last = Math.min(sums.columns, Math.ceil(to / width));
  const edges = Array.from({ length: LATENCY_BINS + 1 }, (_, bin) => plot.valToPos(lowest(bin), "y", true));
  const drawn = Math.max(0, Math.ceil((last - first) / every));
  if (drawnSums.length < drawn * LATENCY_BINS) drawnSums = new Float64Array(drawn * LATENCY_BINS);
  drawnSums.fill(0);
  let most = 1;
  for (let place = first; place < Math.min(first + drawn * every, sums.columns); place++) {
    const into = Math.floor((place - first) / every) * LATENCY_BINS;
    for (let bin = 0; bin < LATENCY_BINS; bin++) {
      const sum = (drawnSums[into + bin] as number) + (cells[place * LATENCY_BINS + bin] as number);
      drawnSums[into + bin] = sum;
      most = Math.max(most, sum);
    }
  }
  const dark = isDark();
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (let index = 0; index < drawn; index++) {
    const x = Math.floor(plot.valToPos((first + index * every) * width, "x", true));
    const right = Math.ceil(plot.valToPos((first + (index + 1) * every) * width, "x", true));
    for (let bin = 0; bin < LATENCY_BINS; bin++) {
      const value = drawnSums[index * LATENCY_BINS + bin] as number;
      if (value === 0) continue;
      const [r, g, b] = heat(Math.log1p(value) / Math.log1p(most), dark);
      ctx.fillStyle = `rgb(${r},${g},${b})`;
      const [top, bottom] = [Math.floor(edges[bin + 1] as number), Math.ceil(edges[bin] as number)];
      // A single slow request must be seen.
      ctx.fillRect(x, top, Math.max(right - x, 2), Math.max(bottom - top, 3));
    }
  }
  ctx.restore();
}

/** Where requests lie, by the process that they belong to. */
export function offsets(side: Side, points: number[], ofFile: boolean): Content {
  const [start, kinds, owners] =
    [column(side, "points", "start_us"), column(side, "points", "kind"), column(side, "points", "owner")];
  const place = ofFile ? column(side, "points", "file_page") : column(side, "points", "sector");
  const value = (at: number) => (ofFile ? ((place[at] as number) - 1) * 4096 : (place[at] as number) * 512);
  const shown = points.filter((at) => {
    const operation = side.kinds[kinds[at] as number]?.[0];
    return operation !== "flush" && (!ofFile || (place[at] as number) > 0);
  });
  if (shown.length === 0) return { x: [], lines: [] };
  const names = namesOf(side, "process");
  const weight = new Map<string, number>();
  for (const at of shown) {
    const name = names[owners[at] as number] ?? OTHERS;
    weight.set(name, (weight.get(name) ?? 0) + 1);
  }
  const order = [...weight.entries()].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  let [least, most] = [Infinity, 0];
  for (const at of shown) {
    least = Math.min(least, value(at));
    most = Math.max(most, value(at));
  }
  const room = Math.max((most - least) * 0.04, 8192);
  const draw = (plot: uPlot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const size = (shown.length > 4000 ? 1.6 : 2.6) * devicePixelRatio;
    ctx.globalAlpha = shown.length > 4000 ? 0.6 : 0.85;
    const tints = names.map((name) => nth(order.indexOf(name)));
    for (const at of shown) {
      ctx.fillStyle = tints[owners[at] as number] ?? nth(7);
      const x = plot.valToPos((start[at] as number) / 1e6, "x", true);
      const y = plot.valToPos(value(at), "y", true);
      ctx.fillRect(x - size / 2, y - size / 2, size, size);
    }
    ctx.restore();
  };
  const legend = order.slice(0, 8).map((name, at) => ({
    label: at === 7 ? "others" : name, colour: nth(at), values: [] as number[],
  }));
  return {
    x: [0, side.length_ns / 1e9], lines: legend, draw,
    range: [Math.max(0, least - room), most + room],
    note: shown.length < side.chosen_of ? `${count(shown.length)} requests of those chosen by chance` : "",
  };
}

/** A counter of the machine: it has points where it changed, up to the end of the watch. */
export function counter(series: Series, length: number): Content {
  const x: number[] = [];
  const values: number[] = [];
  let before: [number, number] | null = null;
  for (const [at, value] of series.points) {
    if (!series.counter) {
      x.push(at);
      values.push(value);
    } else if (before && at > before[0]) {
      const grown = Math.max(0, value - before[1]) / (at - before[0]);
      x.push(before[0]);
      values.push(series.unit === "ns" ? grown / 1e9 : grown);
    }
    before = [at, value];
  }
  const last = values[values.length - 1];
  if (before && last !== undefined && series.counter) {
    x.push(before[0]);
    values.push(length - before[0] > 1.5 ? 0 : last);
  }
  if (before && last !== undefined && length > before[0]) {
    x.push(length);
    values.push(values[values.length - 1] ?? 0);
  }
  return { x, lines: values.length > 0 ? [{ label: "", colour: colour("blue"), values, fill: true }] : [] };
}

export { NONE };
