/** What a selection is of: one table for each dimension, whose rows choose; and its slowest requests. */

import { h, setChildren, setText } from "./dom";
import { column, type Side } from "./data";
import { DIMENSIONS, NONE, type Dimension, type Filter } from "./filter";
import { bytes, count, percent, seconds, time } from "./format";
import { namesOf, percentile, pointsOf, type Row, type Sums } from "./sums";
import { csvButton, tableRows } from "./tables";

const TITLES: Record<Dimension, string> = {
  device: "Devices", process: "Processes", container: "Containers", file: "Files", operation: "Operations",
};
const FEW = 8;

/** The line of one name. It stays as long as the page, and shows other figures. */
class ChoiceLine {
  readonly root: HTMLElement;
  readonly #button: HTMLElement;
  readonly #bar = h("i", { class: "bar" });
  readonly #share = h("span", {});
  readonly #figures = Array.from({ length: 3 }, () => h("td", { class: "figure" }));
  readonly #rest = Array.from({ length: 3 }, () => h("td", { class: "figure" }));

  constructor(dimension: Dimension, readonly name: string, choose: () => void) {
    this.#button = h("button", {
      type: "button", class: "link", "data-key": `${dimension} ${name}`, title: name, onclick: choose,
    }, name);
    this.root = h("tr", {}, h("th", { scope: "row" }, this.#button), ...this.#figures,
      h("td", { class: "figure share" }, this.#bar, this.#share), ...this.#rest);
  }

  show(row: Row, share: number, chosen: string | undefined, side: Side): void {
    const p = (part: number) => {
      const value = percentile(side, row.latencies, 0, part);
      return value === null ? "-" : `~${time(value)}`;
    };
    const isChosen = row.name === chosen;
    this.root.className = isChosen ? "chosen" : chosen === undefined ? "" : "other";
    this.#button.setAttribute("aria-pressed", String(isChosen));
    this.#bar.style.width = `${Math.min(100, share * 100)}%`;
    setText(this.#share, percent(share));
    const figures = [count(row.count), bytes(row.bytes), time(row.time)];
    const rest = [p(0.5), p(0.99), row.blocked > 0 ? time(row.blocked) : "-"];
    this.#figures.forEach((cell, at) => setText(cell, figures[at] ?? ""));
    this.#rest.forEach((cell, at) => setText(cell, rest[at] ?? ""));
  }
}

/** The table of one dimension. */
class Choices {
  readonly root: HTMLElement;
  readonly #body = h("tbody", {});
  readonly #lines = new Map<string, ChoiceLine>();
  readonly #more = h("button", { type: "button", onclick: () => this.#toggle() });
  #isAll = false;
  #shown: [Sums, Filter] | null = null;

  constructor(readonly dimension: Dimension, readonly choose: (name: string) => void) {
    const heads = [TITLES[dimension], "Requests", "Bytes", "Time", "%Time", "p50", "p99", "Blocked"];
    const table = h("table", { class: "choices" },
      h("thead", {}, h("tr", {}, ...heads.map((text, at) =>
        h("th", { scope: "col", class: at > 0 ? "figure" : "" }, text)))),
      this.#body);
    this.root = h("div", { class: "choice", "data-dimension": dimension },
      h("div", { class: "wide" }, table),
      h("div", { class: "tools" }, this.#more, csvButton(() => tableRows(table))));
  }

  show(sums: Sums, filter: Filter): void {
    this.#shown = [sums, filter];
    const rows = sums.rows[this.dimension].filter((row) => row.count > 0 || row.blocked > 0);
    const chosen = filter.names[this.dimension];
    const shown = this.#isAll ? rows : rows.slice(0, FEW);
    const here = chosen === undefined ? undefined : rows.find((row) => row.name === chosen);
    if (here && !shown.includes(here)) shown.push(here);
    const whole = rows.reduce((sum, row) => sum + row.time, 0) || 1;
    const lines = shown.map((row) => {
      const line = this.#line(row.name);
      line.show(row, row.time / whole, chosen, sums.side);
      return line.root;
    });
    // A keyboard user keeps the place.
    const focused = document.activeElement;
    setChildren(this.#body, lines);
    if (focused instanceof HTMLElement && this.#body.contains(focused)) focused.focus();
    this.#more.hidden = rows.length <= FEW;
    setText(this.#more, this.#isAll ? "Show fewer" : `Show all ${rows.length}`);
    this.root.hidden = rows.length === 0 || (chosen === undefined && rows.length === 1 && rows[0]?.name === NONE);
  }

  #line(name: string): ChoiceLine {
    let line = this.#lines.get(name);
    if (!line) {
      line = new ChoiceLine(this.dimension, name, () => this.choose(name));
      this.#lines.set(name, line);
    }
    return line;
  }

  #toggle(): void {
    this.#isAll = !this.#isAll;
    if (this.#shown) this.show(...this.#shown);
  }
}

export class Breakdown {
  readonly root: HTMLElement;
  readonly #all: Choices[];

  constructor(choose: (dimension: Dimension, name: string) => void) {
    this.#all = DIMENSIONS.map((dimension) => new Choices(dimension, (name) => choose(dimension, name)));
    this.root = h("div", { class: "breakdowns" }, ...this.#all.map((it) => it.root));
  }

  show(sums: Sums, filter: Filter): void {
    for (const choices of this.#all) choices.show(sums, filter);
  }
}

const SLOWEST = 15;

/** The slowest requests of a selection, one line each. */
export class SlowestRequests {
  readonly root: HTMLElement;
  readonly #none = h("p", { class: "faint" }, "None of the slowest is in the selection.");
  readonly #body = h("tbody", {});
  readonly #lines: HTMLElement[];
  readonly #some: HTMLElement;

  constructor(readonly side: Side) {
    const heads = ["Start", "Took", "Device", "Operation", "Size", "Process (submitter)", "D2C", "File"];
    const named = (at: number) => ({ class: [0, 1, 4, 6].includes(at) ? "figure" : "" });
    this.#lines = Array.from({ length: SLOWEST }, () => h("tr", {}, ...heads.map((_, at) => h("td", named(at)))));
    const table = h("table", {},
      h("thead", {}, h("tr", {}, ...heads.map((text, at) => h("th", { scope: "col", ...named(at) }, text)))),
      this.#body);
    this.#some = h("div", {},
      h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Slowest requests" }, table),
      h("div", { class: "tools" }, csvButton(() => tableRows(table))));
    this.root = h("div", {}, this.#some, this.#none);
  }

  show(filter: Filter): void {
    const { side } = this;
    const found = pointsOf(side, "slowest", filter).slice(0, SLOWEST);
    const names = (["device", "process", "file", "operation"] as const).map((it) => namesOf(side, it));
    found.forEach((at, line) => {
      const cells = this.#lines[line]?.children;
      slowRequest(side, names, at).forEach((text, place) => {
        const cell = cells?.[place];
        if (cell) setText(cell, text);
      });
    });
    setChildren(this.#body, this.#lines.slice(0, found.length));
    this.#some.hidden = found.length === 0;
    this.#none.hidden = found.length > 0;
  }
}

/** What a line says of a request; names are those of devices, processes, files, operations. */
function slowRequest(side: Side, names: string[][], at: number): string[] {
  const of = (name: string) => column(side, "slowest", name)[at] as number;
  const [took, owner, pid] = [of("time_us") - 1, of("owner"), of("pid")];
  return [
    seconds(of("start_us") / 1e6, 0.0001),
    time(took * 1e3),
    names[0]?.[of("device")] ?? "",
    names[3]?.[of("kind")] ?? "",
    bytes(of("bytes")),
    `${names[1]?.[owner] ?? ""}${pid > 0 ? ` (${pid})` : ""}`,
    percent(took > 0 ? of("d2c_us") / took : 0),
    names[2]?.[of("file")] ?? "",
  ];
}
