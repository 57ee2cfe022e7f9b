/** How requests of the selection spread: over latencies with their stages, sizes, CPUs. */

import { BarChart } from "./bars";
import { OPERATION_COLOURS, STAGE_COLOURS, colour } from "./colours";
import { column, type Side } from "./data";
import { h } from "./dom";
import type { Filter } from "./filter";
import { bytes, count, percent, time } from "./format";
import { LATENCY_BINS, OPERATIONS, STAGES, binFrom, operationOf, pointsOf, type Sums } from "./sums";

const STAGE_NAMES = [
  "Q2G: tags, wbt", "G2I: plug", "I2D: scheduler", "G2D: dispatch", "D2C: device",
];
const MOST_CPUS = 256;

export class Distributions {
  readonly root = h("div", { class: "panels" });
  readonly #latency: BarChart[];
  readonly #sizes: BarChart[];
  readonly #cpus: BarChart[];

  constructor(readonly sides: Side[], readonly choose: (low: number, high: number) => void) {
    const chart = (id: string, title: string) => sides.map((_, at) =>
      new BarChart(at === 0 ? id : `${id}-${at}`, sides.length > 1 ? `${title} ${"AB"[at]}` : title));
    this.#latency = chart("stages", "Latency, and the stages that it is spent in");
    this.#sizes = chart("sizes", "Request sizes");
    this.#cpus = chart("cpus", "Requests by submitting CPU");
    this.root.append(...this.#latency.map((it) => it.root),
      h("div", { class: "pair" }, ...this.#sizes.map((it) => it.root), ...this.#cpus.map((it) => it.root)));
  }

  show(sums: Sums[], filter: Filter): void {
    const all = sums.map((it) => it.latencies);
    const used = Array.from({ length: LATENCY_BINS }, (_, bin) => bin).filter((bin) => all.some((it) => (it[bin] ?? 0) > 0));
    const [least, most] = [used[0] ?? 0, used[used.length - 1] ?? -1];
    sums.forEach((one, at) => {
      this.#latencies(this.#latency[at], one, least, most);
      this.#size(this.#sizes[at], one);
      this.#cpu(this.#cpus[at], one.side, filter);
    });
  }

  #latencies(chart: BarChart | undefined, sums: Sums, least: number, most: number): void {
    const bins = Array.from({ length: most - least + 1 }, (_, at) => least + at);
    const { side, latencies, stages } = sums;
    const share = (stage: number, bin: number) => {
      const whole = stages.reduce((sum, it) => sum + (it[bin] ?? 0), 0);
      return whole > 0 ? (stages[stage]?.[bin] ?? 0) / whole : 0;
    };
    const known = bins.some((bin) => STAGES.some((_, stage) => share(stage, bin) > 0));
    const parts = known
      ? STAGES.map((_, stage) => ({
          name: STAGE_NAMES[stage] ?? "", colour: colour(STAGE_COLOURS[stage] ?? "grey"),
          values: bins.map((bin) => (latencies[bin] ?? 0) * share(stage, bin)),
        }))
      : [{ name: "", colour: colour("blue"), values: bins.map((bin) => latencies[bin] ?? 0) }];
    chart?.show({
      labels: bins.map((bin) => (bin % side.latency.per_octave === 0 ? time(binFrom(side, bin)) : "")),
      parts,
      root: true,
      words: (at) => {
        const bin = bins[at] ?? 0;
        const spent = STAGES.map((word, stage) => [word.toUpperCase(), share(stage, bin)] as const)
          .filter(([, part]) => part >= 0.005).map(([word, part]) => `${word} ${percent(part)}`);
        const range = `${time(binFrom(side, bin))} to ${time(binFrom(side, bin + 1))}`;
        return [`${range}: ${count(latencies[bin] ?? 0)} requests`, ...spent].join("  ·  ");
      },
      choose: (from, to) => this.choose(bins[from] ?? 0, bins[to] ?? 0),
    }, "heights are square roots of counts, so that the slow few show; a drag selects latencies");
  }

  #size(chart: BarChart | undefined, sums: Sums): void {
    const any = (size: number) => sums.sizes.some((it) => (it[size] ?? 0) > 0);
    const used = Array.from({ length: 64 }, (_, size) => size).filter(any);
    // No bytes (flushes) and the smallest size are next to each other: between them there is nothing.
    const [least, most] = [used.find((size) => size > 0) ?? 0, used[used.length - 1] ?? -1];
    const sizes = Array.from({ length: most - least + 1 }, (_, at) => least + at);
    if (used[0] === 0 && least > 0) sizes.unshift(0);
    const label = (size: number) => (size === 0 ? "0 B" : bytes(2 ** size).replace(".00", "").replace(/\.0 /, " "));
    chart?.show({
      labels: sizes.map(label),
      parts: OPERATIONS.map((name, at) => ({
        name, colour: colour(OPERATION_COLOURS[at] ?? "grey"), values: sizes.map((size) => sums.sizes[at]?.[size] ?? 0),
      })),
      words: (at) => {
        const size = sizes[at] ?? 0;
        const parts = OPERATIONS.map((name, op) => [name, sums.sizes[op]?.[size] ?? 0] as const)
          .filter(([, number]) => number > 0).map(([name, number]) => `${name} ${count(number)}`);
        const range = size === 0 ? "0 B" : `${label(size)} to less than ${label(size + 1)}`;
        return [range, ...parts].join("  ·  ");
      },
    });
  }

  #cpu(chart: BarChart | undefined, side: Side, filter: Filter): void {
    const [cpus, kinds] = [column(side, "points", "cpu"), column(side, "points", "kind")];
    const weights = column(side, "points", "stands_for_100ths");
    const found = pointsOf(side, "points", filter);
    const last = Math.min(MOST_CPUS, found.reduce((most, at) => Math.max(most, cpus[at] as number), -1) + 1);
    const values = OPERATIONS.map(() => new Float64Array(Math.max(0, last)));
    for (const at of found) {
      const into = values[operationOf(side.kinds[kinds[at] as number]?.[0] ?? "")];
      const cpu = cpus[at] as number;
      if (into && cpu < last) into[cpu] = (into[cpu] as number) + (weights[at] as number) / 100;
    }
    chart?.show({
      labels: Array.from({ length: Math.max(0, last) }, (_, cpu) => `CPU ${cpu}`),
      parts: OPERATIONS.map((name, at) => ({
        name, colour: colour(OPERATION_COLOURS[at] ?? "grey"), values: values[at] ?? [],
      })),
      words: (cpu) => `CPU ${cpu}: ${count(values.reduce((sum, it) => sum + (it[cpu] ?? 0), 0))} requests`,
    }, side.tables["points"]?.rows === side.chosen_of && !side.estimated ? "" : "estimated from requests chosen by chance");
  }
}
