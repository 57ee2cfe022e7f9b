/** The whole watch in a strip, with the selected time: drag to select, move or resize. */

import { colour } from "./colours";
import { announce, h } from "./dom";
import { seconds } from "./format";

export class Overview {
  readonly root: HTMLElement;
  readonly #canvas: HTMLCanvasElement;
  #values: Float64Array = new Float64Array(0);
  #window: [number, number] = [0, 1];
  #drag: { kind: "new" | "move" | "from" | "to"; at: number; window: [number, number] } | null = null;

  /** Times are seconds; `brush` gets null for the whole watch. */
  constructor(readonly length: number, readonly brush: (window: [number, number] | null) => void) {
    this.#canvas = h("canvas", {
      tabindex: 0, role: "slider", "aria-label": "Selected time",
      "aria-valuemin": 0, "aria-valuemax": length,
      onpointerdown: (event) => this.#down(event as PointerEvent),
      onpointermove: (event) => this.#move(event as PointerEvent),
      onpointerup: () => (this.#drag = null),
      onpointercancel: () => (this.#drag = null),
      ondblclick: () => this.brush(null),
      onkeydown: (event) => this.#key(event as KeyboardEvent),
    });
    this.root = h("div", { class: "overview" }, this.#canvas);
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  show(values: Float64Array, window: [number, number]): void {
    this.#values = values;
    this.#window = window;
    const text = `${seconds(window[0], 0.01)} to ${seconds(window[1], 0.01)}`;
    this.#canvas.setAttribute("aria-valuenow", String(window[0]));
    this.#canvas.setAttribute("aria-valuetext", text);
    this.draw();
  }

  draw(): void {
    const [width, height] = [this.root.clientWidth, 44];
    if (width === 0) return;
    const ratio = devicePixelRatio || 1;
    this.#canvas.width = width * ratio;
    this.#canvas.height = height * ratio;
    const context = this.#canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    const most = this.#values.reduce((most, value) => Math.max(most, value), 0) || 1;
    context.fillStyle = colour("blue");
    context.globalAlpha = 0.55;
    const step = width / Math.max(1, this.#values.length);
    this.#values.forEach((value, at) => {
      const tall = (value / most) * (height - 6);
      if (value > 0) context.fillRect(at * step, height - Math.max(tall, 1), Math.max(step, 1), Math.max(tall, 1));
    });
    const [from, to] = this.#window.map((it) => (it / this.length) * width) as [number, number];
    context.globalAlpha = 0.72;
    context.fillStyle = colour("paper");
    context.fillRect(0, 0, from, height);
    context.fillRect(to, 0, width - to, height);
    context.globalAlpha = 1;
    context.strokeStyle = colour("ink");
    context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), height - 1);
  }

  #at(event: PointerEvent): number {
    const box = this.#canvas.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * this.length;
  }

  #down(event: PointerEvent): void {
    this.#canvas.setPointerCapture(event.pointerId);
    const at = this.#at(event);
    const [from, to] = this.#window;
    const near = (this.length * 8) / Math.max(1, this.#canvas.clientWidth);
    const isWhole = from <= 0 && to >= this.length;
    const kind = isWhole ? "new" : Math.abs(at - from) < near ? "from" : Math.abs(at - to) < near ? "to"
      : at > from && at < to ? "move" : "new";
    this.#drag = { kind, at, window: [from, to] };
  }

  #move(event: PointerEvent): void {
    if (!this.#drag) return;
    const { kind, at, window } = this.#drag;
    const now = this.#at(event);
    if (Math.abs(now - at) < this.length / 2000) return;
    if (kind === "move") return this.#shift(window, now - at);
    const fixed = kind === "from" ? window[1] : kind === "to" ? window[0] : at;
    this.brush([Math.min(fixed, now), Math.max(fixed, now)]);
  }

  #shift(window: [number, number], by: number): void {
    const shift = Math.min(this.length - window[1], Math.max(-window[0], by));
    this.brush([window[0] + shift, window[1] + shift]);
  }

  #key(event: KeyboardEvent): void {
    const [from, to] = this.#window;
    const width = to - from;
    const sized = (factor: number): [number, number] => {
      const [middle, half] = [(from + to) / 2, (width * factor) / 2];
      return [Math.max(0, middle - half), Math.min(this.length, middle + half)];
    };
    switch (event.key) {
      case "ArrowLeft": this.#shift(this.#window, -width / 10); break;
      case "ArrowRight": this.#shift(this.#window, width / 10); break;
      case "+": case "=": this.brush(sized(0.5)); break;
      case "-": this.brush(sized(2)); break;
      case "Home": this.#shift(this.#window, -from); break;
      case "End": this.#shift(this.#window, this.length - to); break;
      case "Escape": this.brush(null); break;
      default: return;
    }
    event.preventDefault();
    announce(this.#canvas.getAttribute("aria-valuetext") ?? "");
  }
}
