/** Distributions as stacked bars on a canvas: latencies with their stages, sizes, CPUs. */

import { WhenSeen, announce, h } from "./dom";
import { colour } from "./colours";

export interface Bars {
  /** The text below each bar. */
  labels: string[];
  /** Parts from the axis up. */
  parts: { name: string; colour: string; values: ArrayLike<number> }[];
  /** What a bar says. */
  words: (bar: number) => string;
  /** Chooses bars: the first and the last. */
  choose?: (from: number, to: number) => void;
  /** Draws the square root of figures: small ones show, too. */
  root?: boolean;
}

const HEIGHT = 190;
const BASE = 34;

const some = (values: ArrayLike<number>) => Array.prototype.some.call(values, (value: number) => value > 0);

export class BarChart {
  readonly root: HTMLElement;
  readonly #canvas: HTMLCanvasElement;
  readonly #readout = h("output", { class: "readout" });
  readonly #legend = h("p", { class: "legend" });
  readonly #note = h("span", { class: "faint" });
  readonly #drawn: WhenSeen;
  #bars: Bars | null = null;
  #at = -1;
  #from = -1;

  constructor(id: string, title: string) {
    this.#canvas = h("canvas", {
      tabindex: 0, role: "img", "aria-label": `${title}. Left and right read bars, Enter selects one.`,
      onpointermove: (event) => this.#hover(event as PointerEvent),
      onpointerleave: () => this.#focus(-1),
      onpointerdown: (event) => this.#down(event as PointerEvent),
      onpointerup: (event) => this.#up(event as PointerEvent),
      onkeydown: (event) => this.#key(event as KeyboardEvent),
    });
    this.root = h("figure", { class: "panel bars", id },
      h("figcaption", {}, h("h3", {}, title), this.#note, this.#readout), this.#canvas, this.#legend);
    new ResizeObserver(() => this.draw()).observe(this.root);
    this.#drawn = new WhenSeen(this.root, () => this.draw());
  }

  show(bars: Bars, note = ""): void {
    this.#bars = bars;
    this.#note.textContent = note;
    this.root.hidden = bars.labels.length === 0;
    const used = bars.parts.filter((part) => some(part.values));
    this.#explain(used);
    this.#at = -1;
    this.#drawn.ask();
  }

  #explain(parts: Bars["parts"]): void {
    const shown = parts.map((part) => `${part.colour} ${part.name}`).join("\n");
    if (this.#legend.dataset["shown"] === shown) return;
    this.#legend.dataset["shown"] = shown;
    this.#legend.replaceChildren(...parts.map((part) => {
      const mark = h("i", {});
      mark.style.background = part.colour;
      return h("span", {}, mark, part.name);
    }));
  }

  draw(): void {
    const bars = this.#bars;
    const width = this.#canvas.clientWidth;
    if (!bars || width === 0) return;
    const ratio = devicePixelRatio || 1;
    this.#canvas.width = width * ratio;
    this.#canvas.height = HEIGHT * ratio;
    const context = this.#canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    const sums = bars.labels.map((_, at) => bars.parts.reduce((sum, part) => sum + (part.values[at] ?? 0), 0));
    const most = Math.max(...sums, 1e-12);
    const tall = (sum: number) => (bars.root ? Math.sqrt(sum / most) : sum / most) * (HEIGHT - BASE - 8);
    const step = width / bars.labels.length;
    sums.forEach((sum, at) => {
      if (sum <= 0) return;
      const whole = Math.max(tall(sum), 2);
      let y = HEIGHT - BASE;
      for (const part of bars.parts) {
        const own = (whole * (part.values[at] ?? 0)) / sum;
        context.fillStyle = part.colour;
        context.fillRect(at * step + Math.min(1, step / 8), y - own, Math.max(step - Math.min(2, step / 4), 1), own);
        y -= own;
      }
    });
    context.strokeStyle = colour("grid");
    context.strokeRect(0.5, HEIGHT - BASE + 0.5, width, 0);
    this.#labels(context, width, step);
    if (this.#at >= 0) {
      context.strokeStyle = colour("ink");
      context.strokeRect(this.#at * step + 0.5, 1, Math.max(step - 1, 2), HEIGHT - BASE - 1);
    }
  }

  #labels(context: CanvasRenderingContext2D, width: number, step: number): void {
    const labels = this.#bars?.labels ?? [];
    context.fillStyle = colour("ink-soft");
    context.font = "12px system-ui, sans-serif";
    const places = labels.flatMap((label, at) => {
      if (label === "") return [];
      const wide = context.measureText(label).width;
      return [{ label, at, wide, x: Math.min(Math.max(0, at * step + step / 2 - wide / 2), width - wide) }];
    });
    // Every label, or every second, third ...: the first step at which none touches the next.
    let every = 1;
    const touches = () => places.some((place, index) => {
      const next = places[index + every];
      return index % every === 0 && next !== undefined && place.x + place.wide + 10 > next.x;
    });
    while (every < places.length && touches()) every++;
    for (const { label, at, x } of places.filter((_, index) => index % every === 0)) {
      context.fillRect(at * step + step / 2, HEIGHT - BASE, 1, 4);
      context.fillText(label, x, HEIGHT - BASE + 18);
    }
  }

  #bar(event: PointerEvent): number {
    const bars = this.#bars?.labels.length ?? 0;
    const box = this.#canvas.getBoundingClientRect();
    return Math.min(bars - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * bars)));
  }

  #focus(at: number): void {
    if (at === this.#at) return;
    this.#at = at;
    this.#readout.textContent = at < 0 ? "" : (this.#bars?.words(at) ?? "");
    this.draw();
  }

  #hover(event: PointerEvent): void {
    this.#focus(this.#bar(event));
  }

  #down(event: PointerEvent): void {
    this.#from = this.#bar(event);
  }

  #up(event: PointerEvent): void {
    if (this.#from < 0) return;
    const to = this.#bar(event);
    this.#bars?.choose?.(Math.min(this.#from, to), Math.max(this.#from, to));
    this.#from = -1;
  }

  #key(event: KeyboardEvent): void {
    const last = (this.#bars?.labels.length ?? 0) - 1;
    switch (event.key) {
      case "ArrowLeft": this.#focus(Math.max(0, this.#at - 1)); break;
      case "ArrowRight": this.#focus(Math.min(last, this.#at + 1)); break;
      case "Home": this.#focus(0); break;
      case "End": this.#focus(last); break;
      case "Enter": if (this.#at >= 0) this.#bars?.choose?.(this.#at, this.#at); break;
      default: return;
    }
    event.preventDefault();
    announce(this.#readout.textContent ?? "");
  }
}
