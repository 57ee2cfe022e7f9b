/** The page: reads its data, draws its charts, and lets every one of them follow the selection. */

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { Breakdown, SlowestRequests } from "./breakdown";
import { forget } from "./colours";
import { read, type Side } from "./data";
import { Distributions } from "./distributions";
import { announce, copy, h, perFrame } from "./dom";
import { DIMENSIONS, EMPTY, fromFragment, isEmpty, toFragment, toggled, type Dimension, type Filter } from "./filter";
import { FlameGraph } from "./flame";
import { bytes, count, seconds, time } from "./format";
import { blameSection, chainSection } from "./graphs";
import { Overview } from "./overview";
import { illustrate } from "./pictures";
import { binFrom, binOf, percentile, sumsOf, type Sums } from "./sums";
import { enhance } from "./tables";
import { Timeline } from "./timeline";

class Page {
  #filter: Filter = fromFragment(location.hash);
  readonly #length: number;
  readonly #overview: Overview;
  readonly #timeline: Timeline;
  readonly #breakdowns: Breakdown[];
  readonly #distributions: Distributions;
  readonly #flames: [FlameGraph, "blocked" | "code"][];
  readonly #chips = h("div", { class: "chips" });
  readonly #totals: HTMLElement[];
  readonly #slowest: SlowestRequests[];
  /** What is shown. */
  #sums: Sums[] = [];
  readonly #draw = perFrame(() => this.#show());

  constructor(readonly sides: Side[], readonly root: HTMLElement) {
    this.#length = Math.max(...sides.map((side) => side.length_ns), 1);
    this.#overview = new Overview(this.#length / 1e9, (window) =>
      this.#select({ time: window ? this.#clamped(window[0], window[1]) : null }));
    this.#timeline = new Timeline(sides, {
      brush: (from, to, low, high) => this.#brush(from, to, low, high),
      reset: () => this.#select({ time: null, latency: null }),
      zoom: (factor, around) => this.#zoom(factor, around),
      pan: (share) => this.#pan(share),
    });
    this.#breakdowns = sides.map(() => new Breakdown((dimension, name) => this.#toggle(dimension, name)));
    this.#distributions = new Distributions(sides, (low, high) => this.#select({ latency: [low, high] }));
    this.#flames = [
      [new FlameGraph("flame-blocked", "Blocked time by code path", "the blocked time"), "blocked"],
      [new FlameGraph("flame-code", "Time of requests by code path", "the time of requests with a stack"), "code"],
    ];
    this.#totals = sides.map(() => h("p", { class: "totals" }));
    this.#slowest = sides.map((side) => new SlowestRequests(side));
    this.#lay();
    addEventListener("hashchange", () => {
      this.#filter = fromFragment(location.hash);
      this.#draw();
    });
    for (const query of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(query).addEventListener("change", () => this.recolour());
    }
    this.#show();
  }

  #lay(): void {
    const [first] = this.sides;
    const compares = this.sides.length > 1;
    const named = (at: number) => (compares ? [h("h3", {}, `${"AB"[at]}: ${this.sides[at]?.name ?? ""}`)] : []);
    const graphs = first && !compares ? [
      chainSection(first.chains),
      blameSection(first.blame, (process) => this.#toggle("process", process)),
    ].filter((it) => it !== null) : [];
    const share = h("button", { type: "button", onclick: () => this.#copyLink(share) }, "Copy link to this selection");
    this.root.append(
      h("div", { class: "bar-top" }, this.#overview.root,
        h("div", { class: "chip-row" }, this.#chips, share)),
      h("h2", {}, "Over time"),
      h("p", { class: "faint" }, "Drag in a chart to select a time, in the heat map also latencies; ",
        "select rows below. All charts and tables down to the flame graphs follow. Double click or Escape shows all."),
      this.#timeline.root,
      h("h2", { id: "selection" }, "Selection"),
      ...this.sides.flatMap((_, at) => [
        ...named(at), this.#totals[at] as HTMLElement, (this.#breakdowns[at] as Breakdown).root,
        h("h3", {}, "Slowest requests"), (this.#slowest[at] as SlowestRequests).root,
      ]),
      h("h2", { id: "distributions" }, "Distributions"), this.#distributions.root,
      h("h2", {}, "Code paths and waits"), ...this.#flames.map(([flame]) => flame.root), ...graphs,
    );
  }

  #clamped(from: number, to: number): [number, number] {
    const least = Math.max(1000, this.#length / 100_000);
    const start = Math.min(Math.max(0, from * 1e9), this.#length - least);
    return [start, Math.max(start + least, Math.min(this.#length, to * 1e9))];
  }

  #select(change: Partial<Filter>): void {
    const time = change.time;
    const isWhole = time && time[0] <= 0 && time[1] >= this.#length;
    this.#filter = { ...this.#filter, ...change, ...(isWhole ? { time: null } : {}) };
    history.replaceState(null, "", `#${toFragment(this.#filter)}`);
    this.#draw();
  }

  #toggle(dimension: Dimension, name: string): void {
    this.#select({ names: toggled(this.#filter, dimension, name).names });
  }

  #brush(from: number, to: number, low: number | null, high: number | null): void {
    const [side] = this.sides;
    if (!side) return;
    const bins = low !== null && high !== null
      ? { latency: [binOf(side, low), binOf(side, high)] as [number, number] } : {};
    const isWhole = from <= 0 && to * 1e9 >= this.#length;
    this.#select({ ...(isWhole ? {} : { time: this.#clamped(from, to) }), ...bins });
  }

  #window(): [number, number] {
    return this.#filter.time ?? [0, this.#length];
  }

  #zoom(factor: number, around: number): void {
    const [from, to] = this.#window().map((it) => it / 1e9) as [number, number];
    this.#select({ time: this.#clamped(around - (around - from) * factor, around + (to - around) * factor) });
  }

  #pan(share: number): void {
    const [from, to] = this.#window();
    const by = Math.max(-from, Math.min(this.#length - to, (to - from) * share));
    this.#select({ time: [from + by, to + by] });
  }

  #show(): void {
    const filter = this.#filter;
    const sums = this.sides.map((side, at) => sumsOf(side, filter, this.#sums[at]));
    this.#sums = sums;
    const window = this.#window().map((it) => it / 1e9) as [number, number];
    this.#overview.show(busy(sums[sums.length - 1]), window);
    this.#timeline.show(sums, filter, window);
    sums.forEach((one, at) => {
      this.#breakdowns[at]?.show(one, filter);
      this.#total(this.#totals[at], one);
      this.#slowest[at]?.show(filter);
    });
    this.#distributions.show(sums, filter);
    for (const [flame, table] of this.#flames) flame.show(this.sides, table, filter);
    this.#showChips();
    document.body.dataset["ready"] = String(performance.now());
    if (document.body.dataset["drawn"] === undefined) {
      // What was drawn is on the screen one frame later.
      document.body.dataset["drawn"] = "";
      requestAnimationFrame(() => requestAnimationFrame(() => {
        document.body.dataset["drawn"] = String(performance.now());
      }));
    }
  }

  /** The selection in one sentence, with exact figures for programs. */
  #total(into: HTMLElement | undefined, { total, latencies, side }: Sums): void {
    if (!into) return;
    const window = this.#window();
    const p = [0.5, 0.99].map((share) => percentile(side, latencies, 0, share));
    const parts = [`${count(total.count)} requests`, bytes(total.bytes)];
    if (total.count > 0) parts.push(`mean ${time(total.time / total.count)}`);
    if (p[0] !== null && p[0] !== undefined) parts.push(`p50 ~${time(p[0])}`, `p99 ~${time(p[1] ?? p[0])}`);
    if (side.tables["waits"]?.rows) parts.push(`threads blocked ${time(total.blocked)}`);
    into.textContent = `${parts.join(", ")}, in ${seconds((window[1] - window[0]) / 1e9, 0.01)}`;
    Object.assign(into.dataset, {
      count: total.count, bytes: total.bytes, time: Math.round(total.time), blocked: Math.round(total.blocked),
    });
  }

  #showChips(): void {
    const { time: window, latency, names } = this.#filter;
    const [side] = this.sides;
    const chip = (text: string, drop: () => void) =>
      h("button", { type: "button", class: "chip", title: `Remove: ${text}`, onclick: drop }, `${text} ×`);
    const chips: HTMLElement[] = [];
    if (window) {
      const text = window.map((it) => seconds(it / 1e9, (window[1] - window[0]) / 1e11)).join(" to ");
      chips.push(chip(text, () => this.#select({ time: null })));
    }
    if (latency && side) {
      const text = `${time(binFrom(side, latency[0]))} to ${time(binFrom(side, latency[1] + 1))}`;
      chips.push(chip(text, () => this.#select({ latency: null })));
    }
    for (const dimension of DIMENSIONS) {
      const name = names[dimension];
      if (name !== undefined) chips.push(chip(`${dimension}: ${name}`, () => this.#toggle(dimension, name)));
    }
    if (isEmpty(this.#filter)) {
      chips.push(h("span", { class: "faint" }, "Nothing is filtered."));
    } else {
      chips.push(h("button", { type: "button", onclick: () => this.#select(EMPTY) }, "Show all"));
    }
    this.#chips.replaceChildren(...chips);
  }

  #copyLink(button: HTMLElement): void {
    void copy(location.href).then((done) => {
      announce(done ? "Link copied" : "Not allowed to copy; the address has the selection");
      button.textContent = done ? "Copied" : "The address has it";
      setTimeout(() => (button.textContent = "Copy link to this selection"), 1500);
    });
  }

  recolour(): void {
    forget();
    this.#timeline.redraw();
    this.#show();
    this.sides.forEach(illustrate);
  }
}

/** How busy the devices were: requests in flight. */
function busy(sums: Sums | undefined): Float64Array {
  return sums?.inFlight ?? new Float64Array(1);
}

async function start(): Promise<void> {
  enhance(document);
  const root = document.getElementById("charts");
  const state = document.getElementById("charts-state");
  if (!root || !state) return;
  try {
    const sides = await read(document.getElementById("iowhy-data")?.textContent ?? "");
    if (sides.every((side) => side.chosen_of === 0 && !side.tables["waits"]?.rows)) {
      state.textContent = "There are no charts: no request and no wait is in this watch.";
      return;
    }
    state.remove();
    sides.forEach(illustrate);
    new Page(sides, root);
  } catch (error) {
    state.textContent = error instanceof Error ? error.message : String(error);
    state.classList.add("alert");
  }
}

void start();
