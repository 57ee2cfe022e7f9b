/** Charts over time. All have the same axis, cursor and brush; uPlot draws them. */

import uPlot from "uplot";
import { WhenSeen, announce, h } from "./dom";
import { colour } from "./colours";
import { clock, seconds } from "./format";
import type { Side } from "./data";

/** What a line shows. */
export interface Line {
  label: string;
  colour: string;
  values: ArrayLike<number | null>;
  /** Filled down to the axis, or to the line before in a stack. */
  fill?: boolean;
  /** Only read below the cursor: something else draws it. */
  silent?: boolean;
}

/** What a panel shows of a filtered watch. */
export interface Content {
  /** Seconds since the beginning, rising. */
  x: number[];
  lines: Line[];
  /** Draws below the lines: a heat map, points. */
  draw?: (plot: uPlot) => void;
  /** The range of the upright axis, where lines do not give it. */
  range?: [number, number];
  /** What stands at a place, beyond the lines. */
  at?: (x: number, y: number) => string;
  note?: string;
}

export interface PanelOptions {
  id: string;
  title: string;
  height: number;
  format: (value: number) => string;
  log?: boolean;
  /** Powers of two on the axis: bytes. */
  binary?: boolean;
  /** Whether a drag also selects on the upright axis. */
  upright?: boolean;
  steps?: boolean;
}

/** What a panel tells the page. */
export interface Hooks {
  brush: (from: number, to: number, low: number | null, high: number | null) => void;
  reset: () => void;
  zoom: (factor: number, around: number) => void;
  pan: (share: number) => void;
}

const AXIS = 86;

/** Moments that all panels mark. */
export interface Moment { at: number; text: string }

export class Panel {
  readonly root: HTMLElement;
  #plot: uPlot | null = null;
  #content: Content | null = null;
  #window: [number, number] = [0, 1];
  #shape = "";
  readonly #body: HTMLElement;
  readonly #readout: HTMLElement;
  readonly #note: HTMLElement;
  readonly #drawn: WhenSeen;

  constructor(
    readonly options: PanelOptions, readonly side: Side, readonly hooks: Hooks,
    readonly moments: Moment[],
  ) {
    this.#readout = h("output", { class: "readout" });
    this.#note = h("span", { class: "faint" });
    this.#body = h("div", {
      class: "plot", tabindex: 0, role: "application",
      "aria-label": `${options.title}, over time. Arrow keys read values, plus and minus zoom, ` +
        "shift with arrows moves, Enter selects around the cursor, Escape shows all.",
      onkeydown: (event) => this.#key(event as KeyboardEvent),
    });
    this.root = h("figure", { class: "panel", id: options.id },
      h("figcaption", {}, h("h3", {}, options.title), this.#note, this.#readout), this.#body);
    new ResizeObserver(() => this.#resize()).observe(this.#body);
    this.#drawn = new WhenSeen(this.root, () => this.#draw());
  }

  /** Shows other figures, of another time. */
  show(content: Content, window: [number, number]): void {
    this.root.hidden = content.lines.length === 0 && !content.draw;
    this.#content = content;
    this.#window = window;
    this.#note.textContent = content.note ?? "";
    this.#drawn.ask();
  }

  #draw(): void {
    const [content, window] = [this.#content as Content, this.#window];
    const shape = content.lines.map((line) => `${line.label}${line.colour}`).join("|");
    if (this.#plot && shape === this.#shape) {
      this.#plot.setData(this.#data(), false);
      this.#plot.setScale("x", { min: window[0], max: window[1] });
    } else {
      this.#shape = shape;
      this.redraw();
    }
  }

  /** Draws it anew: sizes or colours have changed. */
  redraw(): void {
    this.#plot?.destroy();
    this.#plot = null;
    if (!this.#content || this.root.hidden || this.#body.clientWidth < 50) return;
    this.#plot = new uPlot(this.#options(this.#content), this.#data(), this.#body);
    this.#plot.setScale("x", { min: this.#window[0], max: this.#window[1] });
  }

  #resize(): void {
    const width = this.#body.clientWidth;
    if (!this.#plot) return this.redraw();
    if (Math.abs(this.#plot.width - width) > 1 && width >= 50) {
      this.#plot.setSize({ width, height: this.options.height });
    }
  }

  #data(): uPlot.AlignedData {
    const content = this.#content as Content;
    const lines = content.lines.length > 0 ? content.lines.map((line) => line.values) : [[]];
    return [content.x, ...lines] as unknown as uPlot.AlignedData;
  }

  #options(content: Content): uPlot.Options {
    const ink = colour("ink-soft");
    const grid = { stroke: colour("grid"), width: 1 };
    const font = "12px system-ui, sans-serif";
    const format = this.options.format;
    const series: uPlot.Series[] = content.lines.map((line) => ({
      label: line.label,
      ...(line.silent ? {} : { stroke: line.colour }),
      width: line.silent ? 0 : line.fill ? 1 : 1.5,
      points: { show: false },
      spanGaps: true,
      ...(line.fill ? { fill: line.colour.length === 7 ? `${line.colour}55` : line.colour } : {}),
      ...(this.options.steps ? { paths: uPlot.paths.stepped?.({ align: 1 }) as uPlot.Series.PathBuilder } : {}),
    }));
    if (series.length === 0) series.push({ show: false });
    const range = content.range;
    return {
      width: this.#body.clientWidth,
      height: this.options.height,
      series: [{}, ...series],
      legend: { show: false },
      scales: {
        x: { time: false, range: () => this.#window },
        y: {
          ...(this.options.log ? { distr: 3 as const, log: 10 as const } : {}),
          range: range ? () => range : this.options.log
            ? (_, least, most) => [Math.max(least, 1e-9) * 0.8, Math.max(most, 1e-9) * 1.25]
            : (_, __, most) => [0, Math.max(most ?? 0, 1e-9) * 1.08],
        },
      },
      axes: [
        { stroke: ink, font, grid, ticks: grid, size: 28, gap: 2,
          values: (_, splits, __, ___, step) => splits.map((it) => seconds(it, step)) },
        { stroke: ink, font, grid, ticks: grid, size: AXIS, gap: 4,
          ...(this.options.binary ? { splits: binarySplits } : {}),
          ...(this.options.log ? { splits: timeSplits, filter: (_: uPlot, splits: number[]) => splits } : {}),
          values: (_, splits) => splits.map((it) => (it === null ? "" : format(it).replace(/\.0+ /, " "))) },
      ],
      cursor: {
        sync: { key: "time", setSeries: false },
        drag: { x: true, y: this.options.upright ?? false, uni: 12, setScale: false },
        points: { show: false },
        bind: { dblclick: () => () => { this.hooks.reset(); return null; } },
      },
      hooks: {
        drawClear: [(plot) => this.#below(plot)],
        draw: [(plot) => this.#above(plot)],
        setCursor: [(plot) => this.#read(plot)],
        setSelect: [(plot) => this.#brush(plot)],
      },
    };
  }

  #below(plot: uPlot): void {
    this.#content?.draw?.(plot);
  }

  #above(plot: uPlot): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("alert");
    ctx.setLineDash([4, 4]);
    for (const moment of this.moments) {
      const x = Math.round(plot.valToPos(moment.at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  #brush(plot: uPlot): void {
    const { left, top, width, height } = plot.select;
    if (width < 3 && height < 3) return;
    const [from, to] = width < 3 ? this.#window
      : [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    // A drag along one axis selects all of the other one.
    const isUpright = (this.options.upright ?? false) && height > 3 &&
      height < plot.bbox.height / devicePixelRatio - 3;
    const low = isUpright ? plot.posToVal(top + height, "y") : null;
    const high = isUpright ? plot.posToVal(top, "y") : null;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.hooks.brush(from, to, low, high);
  }

  /** What stands below the cursor, in words. */
  #read(plot: uPlot): void {
    const { left, top } = plot.cursor;
    if (left === undefined || left === null || left < 0 || !this.#content) {
      this.#readout.textContent = "";
      return;
    }
    this.#readout.textContent = this.#words(plot, left, top ?? 0).join("  ·  ");
  }

  #words(plot: uPlot, left: number, top: number): string[] {
    const content = this.#content as Content;
    const x = plot.posToVal(left, "x");
    const at = plot.cursor.idx ?? plot.posToIdx(left);
    const words = [this.#time(content.x[at] ?? x)];
    for (const line of content.lines) {
      const value = line.values[at];
      if (value === null || value === undefined) continue;
      if (value > 0 || content.lines.length < 4) words.push(`${line.label} ${this.options.format(value)}`);
    }
    const more = content.at?.(x, plot.posToVal(top, "y"));
    if (more) words.push(more);
    return words;
  }

  #time(at: number): string {
    const step = (this.#window[1] - this.#window[0]) / 1000;
    const { start_unix_ms, utc_offset_s } = this.side;
    const since = seconds(at, step);
    if (start_unix_ms === null) return since;
    return `${since} (${clock(start_unix_ms + at * 1000, utc_offset_s, step < 0.01 ? 3 : 0)})`;
  }

  #key(event: KeyboardEvent): void {
    const plot = this.#plot;
    if (!plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const width = plot.bbox.width / devicePixelRatio;
    const height = plot.bbox.height / devicePixelRatio;
    const left = Math.max(0, plot.cursor.left ?? 0);
    const top = Math.max(0, plot.cursor.top ?? height / 2);
    const move = (x: number, y: number) => {
      plot.setCursor({ left: Math.min(width - 1, Math.max(0, x)), top: Math.min(height - 1, Math.max(0, y)) });
      announce(this.#words(plot, plot.cursor.left ?? 0, plot.cursor.top ?? 0).join(", "));
    };
    const step = Math.max(1, width / 100);
    switch (event.key) {
      case "ArrowLeft": if (event.shiftKey) this.hooks.pan(-0.2); else move(left - step, top); break;
      case "ArrowRight": if (event.shiftKey) this.hooks.pan(0.2); else move(left + step, top); break;
      case "ArrowUp": move(left, top - 4); break;
      case "ArrowDown": move(left, top + 4); break;
      case "Home": move(0, top); break;
      case "End": move(width, top); break;
      case "+": case "=": this.hooks.zoom(0.5, plot.posToVal(left, "x")); break;
      case "-": this.hooks.zoom(2, plot.posToVal(left, "x")); break;
      case "Enter": {
        const x = plot.posToVal(left, "x");
        const part = (this.#window[1] - this.#window[0]) / 10;
        this.hooks.brush(x - part / 2, x + part / 2, null, null);
        break;
      }
      case "Escape": this.hooks.reset(); break;
      default: return;
    }
    event.preventDefault();
  }
}

/** Powers of ten; also twice and five times those where there are few. */
function timeSplits(_: uPlot, __: number, least: number, most: number): number[] {
  const decades = Math.log10(most / least);
  const parts = decades > 3 ? [1] : decades > 1.5 ? [1, 3] : [1, 2, 5];
  const splits: number[] = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); power++) {
    splits.push(...parts.map((part) => part * 10 ** power).filter((it) => it >= least && it <= most));
  }
  return splits;
}

/** Round numbers of bytes. */
function binarySplits(_: uPlot, __: number, least: number, most: number, step: number): number[] {
  let width = 2 ** Math.floor(Math.log2(Math.max(step, 1)));
  while (most / width > 7) width *= 2;
  const splits: number[] = [];
  for (let at = Math.ceil(least / width) * width; at <= most; at += width) splits.push(at);
  return splits;
}
