/** A flame graph, and the difference of two. Its own width shows the time; callers stand above. */

import { WhenSeen, announce, h } from "./dom";
import { colour, isDark } from "./colours";
import { column, type Flames, type Side } from "./data";
import { percent, time } from "./format";
import { columnsOf, keptNames } from "./sums";
import type { Dimension, Filter } from "./filter";

/** A function within its callers, with the time of it and all that it called. */
export interface FlameFrame {
  text: string;
  kernel: boolean;
  time: number;
  /** Of the other watch, as shares of both are compared. */
  other: number;
  children: Map<string, FlameFrame>;
  parent: FlameFrame | null;
}

const frame = (text: string, kernel: boolean, parent: FlameFrame | null): FlameFrame =>
  ({ text, kernel, time: 0, other: 0, children: new Map(), parent });

/** Adds the branches that a filter keeps to `root`. */
export function grow(
  root: FlameFrame, side: Side, table: "blocked" | "code", filter: Filter, into: "time" | "other",
): void {
  const flames: Flames = side[table];
  const of = (name: string) => column(side, table, name);
  const [nodes, devices, owners, files] = [of("node"), of("device"), of("owner"), of("file")] as const;
  const [kinds, columns, times] = [of("kind"), of("column"), of("time_ns")] as const;
  const keeps = (dimension: Dimension) => keptNames(side, filter, dimension);
  const [device, process, container, file] = [keeps("device"), keeps("process"), keeps("container"), keeps("file")];
  // Waits have no operation.
  const kind = table === "code" ? keeps("operation") : null;
  const [from, to] = columnsOf(side, filter.time).map((at) => at / flames.every) as [number, number];
  const known = new Map<number, FlameFrame>();
  const find = (node: number): FlameFrame => {
    const found = known.get(node);
    if (found) return found;
    const caller = flames.parents[node] ?? 0;
    const parent = caller === 0 ? root : find(caller - 1);
    const text = flames.texts[node] ?? "";
    let own = parent.children.get(text);
    if (!own) {
      own = frame(text, flames.kernel[node] === 1, parent);
      parent.children.set(text, own);
    }
    known.set(node, own);
    return own;
  };
  for (let at = 0; at < times.length; at++) {
    const owner = owners[at] as number;
    if (!device[devices[at] as number] || !process[owner] || !container[owner] || !file[files[at] as number]) continue;
    if (kind && !kind[kinds[at] as number]) continue;
    const place = columns[at] as number;
    if (place + 1 <= from || place >= to) continue;
    for (let own: FlameFrame | null = find(nodes[at] as number); own; own = own.parent) {
      own[into] += times[at] as number;
    }
  }
}

/** Where a flame graph shows more or less than the selection. */
function follows(side: Side, table: "blocked" | "code", filter: Filter, isEmpty: boolean): string {
  const { every, by_file } = side[table];
  const parts = isEmpty ? ["nothing in the selection has a stack"] : [];
  if (filter.time) parts.push(`time in steps of ${time(every * side.column_ns)}`);
  if (filter.latency) parts.push(table === "code" ? "all latencies" : "waits of all requests, whatever these took");
  if (table === "blocked" && filter.names.operation !== undefined) parts.push("waits for all operations");
  if (filter.names.file !== undefined && !by_file) parts.push("files are not distinguished: too many");
  return parts.join("; ");
}

const ROW = 19;
const MOST_ROWS = 60;

interface Box { frame: FlameFrame; x: number; width: number; depth: number }

export class FlameGraph {
  readonly root: HTMLElement;
  readonly #canvas: HTMLCanvasElement;
  readonly #readout = h("output", { class: "readout" });
  readonly #note = h("span", { class: "faint" });
  readonly #search: HTMLInputElement;
  readonly #drawn: WhenSeen;
  #all: FlameFrame = frame("all", false, null);
  #zoomed: FlameFrame = this.#all;
  #focused: FlameFrame | null = null;
  #boxes: Box[] = [];
  #compares = false;

  constructor(id: string, title: string, readonly unit: string) {
    this.#canvas = h("canvas", {
      tabindex: 0, role: "application",
      "aria-label": `${title}, flame graph. Arrow keys move between callers, called functions and ` +
        "neighbours, Enter shows one alone, Escape shows all.",
      onpointermove: (event) => this.#hover(event as PointerEvent),
      onpointerleave: () => this.#focus(null),
      onclick: (event) => this.#zoom(this.#under(event as PointerEvent)),
      onkeydown: (event) => this.#key(event as KeyboardEvent),
    });
    this.#search = h("input", { type: "search", placeholder: "Search functions", "aria-label": `Search in ${title}`,
      oninput: () => this.draw() });
    this.root = h("figure", { class: "panel flame", id },
      h("figcaption", {}, h("h3", {}, title), this.#note, this.#search,
        h("button", { type: "button", onclick: () => this.#zoom(this.#all) }, "Show all"), this.#readout),
      this.#canvas);
    new ResizeObserver(() => this.draw()).observe(this.root);
    this.#drawn = new WhenSeen(this.root, () => this.draw());
  }

  /** Shows one watch, or the second of two as differences to the first. */
  show(sides: Side[], table: "blocked" | "code", filter: Filter): void {
    const path: string[] = [];
    for (let at: FlameFrame | null = this.#zoomed; at?.parent; at = at.parent) path.unshift(at.text);
    this.#all = frame("all", false, null);
    const last = sides[sides.length - 1];
    if (last) grow(this.#all, last, table, filter, "time");
    this.#compares = sides.length > 1;
    if (this.#compares && sides[0]) grow(this.#all, sides[0], table, filter, "other");
    this.#zoomed = path.reduce<FlameFrame>((at, text) => at.children.get(text) ?? at, this.#all);
    this.#focused = null;
    const isEmpty = this.#all.time + this.#all.other === 0;
    this.root.hidden = sides.every((side) => side[table].time_ns === 0);
    this.#note.textContent = last ? follows(last, table, filter, isEmpty) : "";
    this.#drawn.ask();
  }

  draw(): void {
    const width = this.#canvas.clientWidth;
    if (width === 0) return;
    this.#layout(width);
    const rows = Math.min(MOST_ROWS, 1 + this.#boxes.reduce((most, box) => Math.max(most, box.depth), 0));
    const [height, ratio] = [rows * ROW + 2, devicePixelRatio || 1];
    this.#canvas.style.height = `${height}px`;
    this.#canvas.width = width * ratio;
    this.#canvas.height = height * ratio;
    const context = this.#canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    context.font = "12px system-ui, sans-serif";
    const wanted = this.#search.value.toLowerCase();
    for (const box of this.#boxes) {
      const y = box.depth * ROW;
      const isFound = wanted !== "" && box.frame.text.toLowerCase().includes(wanted);
      context.fillStyle = isFound ? colour("found") : this.#fill(box.frame);
      context.fillRect(box.x + 0.5, y + 1, Math.max(box.width - 1, 0.5), ROW - 2);
      if (box.frame === this.#focused) {
        context.strokeStyle = colour("ink");
        context.lineWidth = 2;
        context.strokeRect(box.x + 1, y + 1, Math.max(box.width - 2, 1), ROW - 2);
      }
      if (box.width > 34) {
        context.fillStyle = isFound ? "#000" : colour("flame-ink");
        context.fillText(fitted(context, box.frame.text, box.width - 8), box.x + 4, y + 14);
      }
    }
  }

  /** The share that is drawn: of both watches together where two are compared. */
  #weight(frame: FlameFrame): number {
    const share = (time: number, all: number) => (all > 0 ? time / all : 0);
    return share(frame.time, this.#all.time) + (this.#compares ? share(frame.other, this.#all.other) : 0);
  }

  #layout(width: number): void {
    this.#boxes = [];
    const callers: FlameFrame[] = [];
    for (let at: FlameFrame | null = this.#zoomed.parent; at; at = at.parent) callers.unshift(at);
    callers.forEach((frame, depth) => this.#boxes.push({ frame, x: 0, width, depth }));
    const place = (frame: FlameFrame, x: number, wide: number, depth: number) => {
      if (wide < 0.7 || depth >= MOST_ROWS) return;
      this.#boxes.push({ frame, x, width: wide, depth });
      const all = this.#weight(frame) || 1;
      const children = [...frame.children.values()].sort((a, b) => this.#weight(b) - this.#weight(a));
      for (const child of children) {
        const own = (wide * this.#weight(child)) / all;
        place(child, x, own, depth + 1);
        x += own;
      }
    };
    place(this.#zoomed, 0, width, callers.length);
  }

  #fill(frame: FlameFrame): string {
    if (this.#compares) return this.#difference(frame);
    if (!frame.parent) return colour("grid");
    // A function keeps its colour, wherever it stands.
    let hash = 0;
    for (let at = 0; at < frame.text.length; at++) hash = (hash * 31 + frame.text.charCodeAt(at)) % 97;
    const light = isDark() ? 34 + (hash % 9) : 74 + (hash % 11);
    const hue = frame.kernel ? 205 + (hash % 20) : frame.parent.parent ? 30 + (hash % 18) : 150;
    return `hsl(${hue} ${isDark() ? 45 : 62}% ${light}%)`;
  }

  #difference(frame: FlameFrame): string {
    const [b, a] = [frame.time / (this.#all.time || 1), frame.other / (this.#all.other || 1)];
    const change = (b - a) / Math.max(a + b, 1e-9);
    const light = isDark() ? 30 : 92 - Math.abs(change) * 30;
    return `hsl(${change > 0 ? 25 : 210} ${Math.round(Math.abs(change) * 80)}% ${light}%)`;
  }

  #under(event: PointerEvent): FlameFrame | null {
    const box = this.#canvas.getBoundingClientRect();
    const [x, depth] = [event.clientX - box.left, Math.floor((event.clientY - box.top) / ROW)];
    return this.#boxes.find((it) => it.depth === depth && x >= it.x && x < it.x + it.width)?.frame ?? null;
  }

  #words(frame: FlameFrame): string {
    const share = (time: number, all: number) => percent(all > 0 ? time / all : 0);
    const own = `${time(frame.time)}, ${share(frame.time, this.#all.time)} of ${this.unit}`;
    if (!this.#compares) return `${frame.text}: ${own}`;
    const before = `${time(frame.other)}, ${share(frame.other, this.#all.other)}`;
    return `${frame.text}: A ${before}; B ${own}`;
  }

  #focus(frame: FlameFrame | null): void {
    if (frame === this.#focused) return;
    this.#focused = frame;
    this.#readout.textContent = frame ? this.#words(frame) : "";
    this.draw();
  }

  #hover(event: PointerEvent): void {
    this.#focus(this.#under(event));
  }

  #zoom(frame: FlameFrame | null): void {
    if (!frame) return;
    this.#zoomed = frame;
    this.draw();
  }

  #key(event: KeyboardEvent): void {
    const at = this.#focused ?? this.#zoomed;
    const sorted = (frame: FlameFrame | null) =>
      [...(frame?.children.values() ?? [])].sort((a, b) => this.#weight(b) - this.#weight(a));
    const beside = (by: number) => {
      const all = sorted(at.parent);
      return all[all.indexOf(at) + by] ?? at;
    };
    switch (event.key) {
      case "ArrowDown": this.#focus(sorted(at)[0] ?? at); break;
      case "ArrowUp": this.#focus(at.parent ?? at); break;
      case "ArrowLeft": this.#focus(beside(-1)); break;
      case "ArrowRight": this.#focus(beside(1)); break;
      case "Enter": this.#zoom(at); break;
      case "Escape": this.#zoom(this.#all); break;
      default: return;
    }
    event.preventDefault();
    announce(this.#words(this.#focused ?? at));
  }
}

function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let [least, most] = [0, text.length];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) least = middle;
    else most = middle - 1;
  }
  return least > 1 ? `${text.slice(0, least)}…` : "";
}
