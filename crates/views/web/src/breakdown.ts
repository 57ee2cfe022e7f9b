/** What a selection is of: one table for each dimension, whose rows choose; and its slowest requests. */

import { h } from "./dom";
import { column, type Side } from "./data";
import { DIMENSIONS, NONE, type Dimension, type Filter } from "./filter";
import { bytes, count, percent, seconds, time } from "./format";
import { namesOf, percentile, pointsOf, type Row, type Sums } from "./sums";
import { csvButton, tableRows } from "./tables";

const TITLES: Record<Dimension, string> = {
  device: "Devices", process: "Processes", container: "Containers", file: "Files", operation: "Operations",
};
const FEW = 8;

export class Breakdown {
  readonly root = h("div", { class: "breakdowns" });
  readonly #all = new Set<Dimension>();
  #sums: Sums | null = null;
  #filter: Filter | null = null;

  constructor(readonly choose: (dimension: Dimension, name: string) => void) {}

  show(sums: Sums, filter: Filter): void {
    [this.#sums, this.#filter] = [sums, filter];
    // A keyboard user keeps the place.
    const focused = (document.activeElement as HTMLElement | null)?.dataset["key"];
    this.root.replaceChildren(...DIMENSIONS.map((dimension) => this.#table(dimension, sums, filter)));
    if (focused) {
      const again = [...this.root.querySelectorAll<HTMLElement>("[data-key]")];
      again.find((it) => it.dataset["key"] === focused)?.focus();
    }
  }

  #table(dimension: Dimension, sums: Sums, filter: Filter): HTMLElement {
    const rows = sums.rows[dimension].filter((row) => row.count > 0 || row.blocked > 0);
    const chosen = filter.names[dimension];
    const shown = this.#all.has(dimension) ? rows : rows.slice(0, FEW);
    const here = chosen === undefined ? undefined : rows.find((row) => row.name === chosen);
    if (here && !shown.includes(here)) shown.push(here);
    const whole = rows.reduce((sum, row) => sum + row.time, 0) || 1;
    const table = h("table", { class: "choices" },
      h("thead", {}, h("tr", {},
        ...[TITLES[dimension], "Requests", "Bytes", "Time", "%Time", "p50", "p99", "Blocked"].map((text, at) =>
          h("th", { scope: "col", class: at > 0 ? "figure" : "" }, text)))),
      h("tbody", {}, ...shown.map((row) => this.#row(dimension, row, row.time / whole, chosen, sums.side))));
    const more = rows.length > FEW ? [h("button", {
      type: "button", onclick: () => this.#toggle(dimension),
    }, this.#all.has(dimension) ? "Show fewer" : `Show all ${rows.length}`)] : [];
    return h("div", { class: "choice", "data-dimension": dimension, hidden: rows.length === 0 || (chosen === undefined && rows.length === 1 && rows[0]?.name === NONE) },
      h("div", { class: "wide" }, table),
      h("div", { class: "tools" }, ...more, csvButton(() => tableRows(table))));
  }

  #row(dimension: Dimension, row: Row, share: number, chosen: string | undefined, side: Side): HTMLElement {
    const p = (part: number) => {
      const value = percentile(side, row.latencies, 0, part);
      return value === null ? "-" : time(value);
    };
    const bar = h("i", { class: "bar" });
    bar.style.width = `${Math.min(100, share * 100)}%`;
    const button = h("button", {
      type: "button", class: "link", "aria-pressed": String(row.name === chosen),
      "data-key": `${dimension} ${row.name}`, title: row.name,
      onclick: () => this.choose(dimension, row.name),
    }, row.name);
    const figures = [count(row.count), bytes(row.bytes), time(row.time)];
    const rest = [p(0.5), p(0.99), row.blocked > 0 ? time(row.blocked) : "-"];
    return h("tr", { class: row.name === chosen ? "chosen" : chosen === undefined ? "" : "other" },
      h("th", { scope: "row" }, button),
      ...figures.map((text) => h("td", { class: "figure" }, text)),
      h("td", { class: "figure share" }, bar, h("span", {}, percent(share))),
      ...rest.map((text) => h("td", { class: "figure" }, text)));
  }

  #toggle(dimension: Dimension): void {
    if (!this.#all.delete(dimension)) this.#all.add(dimension);
    if (this.#sums && this.#filter) this.show(this.#sums, this.#filter);
  }
}

const SLOWEST = 15;

/** The slowest requests of a selection, one line each. */
export function slowest(side: Side, filter: Filter): HTMLElement | null {
  const found = pointsOf(side, "slowest", filter).slice(0, SLOWEST);
  if (found.length === 0) return null;
  const of = (name: string) => column(side, "slowest", name);
  const names = (["device", "process", "file", "operation"] as const).map((it) => namesOf(side, it));
  const row = (at: number): string[] => {
    const took = (of("time_us")[at] as number) - 1;
    const owner = of("owner")[at] as number;
    const pid = of("pid")[at] as number;
    const share = took > 0 ? (of("d2c_us")[at] as number) / took : 0;
    return [
      seconds((of("start_us")[at] as number) / 1e6, 0.0001),
      time(took * 1e3),
      names[0]?.[of("device")[at] as number] ?? "",
      names[3]?.[of("kind")[at] as number] ?? "",
      bytes(of("bytes")[at] as number),
      `${names[1]?.[owner] ?? ""}${pid > 0 ? ` (${pid})` : ""}`,
      percent(share),
      names[2]?.[of("file")[at] as number] ?? "",
    ];
  };
  const heads = ["Start", "Took", "Device", "Operation", "Size", "Process (submitter)", "D2C", "File"];
  const isFigure = (at: number) => [0, 1, 4, 6].includes(at);
  const table = h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((text, at) =>
      h("th", { scope: "col", class: isFigure(at) ? "figure" : "" }, text)))),
    h("tbody", {}, ...found.map((at) => h("tr", {}, ...row(at).map((text, place) =>
      h("td", { class: isFigure(place) ? "figure" : "" }, text))))));
  return h("div", {},
    h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Slowest requests" }, table),
    h("div", { class: "tools" }, csvButton(() => tableRows(table))));
}
