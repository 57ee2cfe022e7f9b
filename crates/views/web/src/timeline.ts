/** All charts over time, below each other with one axis. */

import * as contents from "./contents";
import { resampled } from "./resample";
import { colour } from "./colours";
import type { Side } from "./data";
import { h } from "./dom";
import type { Filter } from "./filter";
import { bytes, percent, rate, seconds, time } from "./format";
import { Panel, type Content, type Hooks, type Line, type Moment, type PanelOptions } from "./panels";
import { pointsOf, type Sums } from "./sums";

/** The machine's counters that are shown, and what they are called. */
const COUNTERS: [string, string, (value: number) => string, boolean][] = [
  ["pressure.io.some", "Pressure: some task waits for I/O", percent, false],
  ["pressure.memory.some", "Pressure: some task waits for memory", percent, false],
  ["vmstat.nr_dirty", "Dirty pages", bytes, true],
  ["vmstat.nr_writeback", "Pages under writeback", bytes, true],
  ["meminfo.MemAvailable", "Memory available", bytes, true],
  ["vmstat.nr_file_pages", "Page cache", bytes, true],
  ["vmstat.workingset_refault_file", "Refaults of file pages", (value) => `${bytes(value)}/s`, true],
  ["vmstat.pswpin", "Swapped in", (value) => `${bytes(value)}/s`, true],
  ["stat.procs_blocked", "Threads that wait for I/O", rate, false],
  ["stat.iowait", "CPUs in iowait", rate, false],
  ["stat.user", "CPUs in user mode", rate, false],
];

type Make = (sums: Sums[], filter: Filter, window: [number, number]) => Content[];

interface Row { panels: Panel[]; make: Make }

export class Timeline {
  readonly root = h("div", { class: "panels" });
  readonly #rows: Row[] = [];
  #fileOffsets = false;

  constructor(readonly sides: Side[], readonly hooks: Hooks) {
    const one = (options: PanelOptions, make: (sums: Sums, filter: Filter) => Content) =>
      this.#add(options, sides.length, (sums, filter) => sums.map((it) => make(it, filter)));
    const merged = (options: PanelOptions, make: (sums: Sums, window: [number, number]) => Content) =>
      this.#add(options, 1, (sums, _, window) => [sums.length === 1
        ? make(sums[0] as Sums, window) : together(sums, (it) => make(it, [0, Infinity]))]);
    merged({ id: "requests", title: "Requests per second", height: 150, format: rate, steps: true },
      (sums, window) => contents.byOperation(sums, sums.counts, window));
    merged({ id: "bytes", title: "Bytes per second", height: 150, binary: true, steps: true,
      format: (value) => `${bytes(value)}/s` }, (sums, window) => contents.byOperation(sums, sums.bytes, window));
    this.#add({ id: "heat", title: "Latency of requests", height: 260, format: time, log: true, upright: true },
      sides.length, heatMaps);
    one({ id: "percentiles", title: "Latency percentiles", height: 170, format: time, log: true },
      contents.latencyLines);
    merged({ id: "in-flight", title: "Requests in flight", height: 130, format: rate, steps: true },
      contents.inFlight);
    one({ id: "waits", title: "Threads blocked, by wait class", height: 170, format: rate }, contents.waits);
    one({ id: "offsets", title: "Where requests lie", height: 240, binary: true, format: bytes, upright: false },
      (sums, filter) => contents.offsets(sums.side, pointsOf(sums.side, "points", { ...filter, time: null }),
        this.#fileOffsets && filter.names.file !== undefined));
    this.#toggle();
    if (sides.length === 1) this.#counters(sides[0] as Side);
  }

  #add(options: PanelOptions, count: number, make: Make, into = this.root): void {
    const panels = Array.from({ length: count }, (_, at) => {
      const side = this.sides[at] as Side;
      const name = count > 1 ? `${options.title} ${"AB"[at]}` : options.title;
      const id = at === 0 ? options.id : `${options.id}-${at}`;
      return new Panel({ ...options, id, title: name }, side, this.hooks, moments(side));
    });
    panels.forEach((panel) => into.append(panel.root, legendOf(panel)));
    this.#rows.push({ panels, make });
  }

  /** Offsets on the device, or in the file where one is chosen. */
  #toggle(): void {
    const box = h("input", { type: "checkbox", onchange: () => {
      this.#fileOffsets = box.checked;
      this.hooks.pan(0);
    } });
    const label = h("label", { class: "tools" }, box, " in the file, where one is selected");
    this.root.querySelector("#offsets figcaption")?.append(label);
  }

  #counters(side: Side): void {
    const into = h("div", { class: "panels small-panels" });
    for (const [metric, title, format, binary] of COUNTERS) {
      const series = side.series.find((it) => it.metric === metric);
      if (!series || !series.points.some(([, value]) => value !== series.points[0]?.[1])) continue;
      const options = { id: metric.replaceAll(".", "-"), title, height: 110, format, binary, steps: true };
      this.#add(options, 1, () => [contents.counter(series, side.length_ns / 1e9)], into);
    }
    if (into.childElementCount === 0) return;
    this.root.append(h("details", { open: true }, h("summary", {}, "Counters of the machine"), into));
  }

  show(sums: Sums[], filter: Filter, window: [number, number]): void {
    for (const { panels, make } of this.#rows) {
      make(sums, filter, window).forEach((content, at) => {
        const panel = panels[at];
        panel?.show(content, window);
        if (panel) fill(panel, content, this.sides);
      });
    }
  }

  redraw(): void {
    for (const { panels } of this.#rows) panels.forEach((panel) => panel.redraw());
  }
}

/** The same bins for all, so that two can be compared. */
function heatMaps(sums: Sums[]): Content[] {
  const used = sums.map((it) => contents.usedBins(it.heat)).filter(([least, most]) => least < most);
  const bins: [number, number] = [Math.min(...used.map(([it]) => it)), Math.max(...used.map(([, it]) => it))];
  return sums.map((it) => contents.heatMap(it, bins));
}

/** The sums of all lines of each watch, on one axis: that of the one with the wider columns. */
function together(sums: Sums[], make: (sums: Sums) => Content): Content {
  const made = sums.map((one) => {
    const content = make(one);
    const length = one.side.length_ns / 1e9;
    const [first, second] = content.x;
    return { content, length, every: first !== undefined && second !== undefined ? second - first : length };
  });
  const width = Math.max(...made.map(({ every }) => every));
  const columns = Math.max(...made.map(({ length }) => Math.ceil(length / width - 1e-9)));
  const lines: Line[] = made.map((one, index) => ({
    label: `${"AB"[index]}`, colour: colour(index === 0 ? "blue" : "orange"),
    values: resampled(one, width, columns),
  }));
  return { x: Array.from({ length: columns }, (_, at) => at * width), lines };
}

function moments(side: Side): Moment[] {
  return side.marks.map(({ at_s, text }) => ({ at: at_s, text }));
}

function legendOf(panel: Panel): HTMLElement {
  return h("p", { class: "legend", id: `${panel.options.id}-legend` });
}

function fill(panel: Panel, content: Content, sides: Side[]): void {
  const legend = panel.root.nextElementSibling as HTMLElement;
  legend.hidden = panel.root.hidden;
  const lines = content.lines.filter((line) => line.label !== "");
  const shown = lines.map((line) => `${line.colour} ${line.label}`).join("\n");
  if (legend.dataset["shown"] === shown) return;
  legend.dataset["shown"] = shown;
  const marks = sides.flatMap((side, index) => moments(side).map(({ at, text }) => {
    const when = `${sides.length > 1 ? `${"AB"[index]}, ` : ""}${seconds(at, 0.01)}`;
    return h("span", {}, h("i", { class: "moment" }), `${when}: ${text}`);
  }));
  legend.replaceChildren(...lines.map((line) => {
    const mark = h("i", {});
    mark.style.background = line.colour;
    return h("span", {}, mark, line.label);
  }), ...(panel.options.id === "requests" ? marks : []));
}
