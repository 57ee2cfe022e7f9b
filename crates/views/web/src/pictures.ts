/** A small picture for each finding, of what its sentence says. */

import { OPERATION_COLOURS, colour, heat, isDark, nth } from "./colours";
import type { Chain, Limit, Modes, Side } from "./data";
import { h } from "./dom";
import { EMPTY, type Filter } from "./filter";
import { bytes, rate, time } from "./format";
import { chainDiagram } from "./graphs";
import { LATENCY_BINS, OPERATIONS, binFrom, binOf, namesOf, sumsOf, type Sums } from "./sums";
import { usedBins } from "./contents";

/** What shows a finding best, as its rule says (diagnosis/src/rule.rs); all others show where threads waited. */
type Picture = "bytes" | "limit" | "heat" | "tail" | "chain" | "waits";

const [WIDTH, HEIGHT] = [340, 120];

/** Puts pictures next to the findings of a watch; of two that are compared, `index` is the number. */
export function illustrate(side: Side, index: number): void {
  const findings = document.querySelectorAll<HTMLElement>(`[data-side="${index}"] article.finding`);
  for (const finding of findings) {
    const place = finding.querySelector<HTMLElement>(".picture");
    const picture = place ? pictureOf(side, finding.dataset) : null;
    if (!place || !picture) continue;
    place.replaceChildren(picture);
    place.hidden = false;
  }
}

function pictureOf(side: Side, data: DOMStringMap): HTMLElement | null {
  const kind = (data["picture"] ?? "waits") as Picture;
  const [chain, isOwn] = chainOf(side.chains, data);
  if (kind === "chain" && chain) {
    const words = isOwn ? `${time(chain.time_ns)} in this wait chain` : `${time(chain.time_ns)} in the longest wait chain`;
    return h("figure", {}, h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": words },
      chainDiagram(chain, true) as unknown as Node), h("figcaption", {}, words));
  }
  const filter: Filter = { ...EMPTY, names: {} };
  const device = data["device"];
  if (device !== undefined && namesOf(side, "device").includes(device)) filter.names.device = device;
  const sums = sumsOf(side, filter);
  const of = device === undefined ? "all devices" : device;
  const any = sums.total.count > 0;
  const limits = side.limits.filter((it) => it.device === device);
  // A limit: where requests per second stayed flat at a round number, that is shown.
  if (kind === "limit" && limits.length > 0 && any) {
    return drawn(`requests per second of ${of} over time,`, (to) => rateOf(to, sums, limits));
  }
  const isHeat = kind === "heat" || kind === "tail";
  const modes = side.modes.find((it) => it.device === device);
  if (isHeat && modes && any) {
    filter.names.operation = modes.operation;
    return drawn(`latency of ${modes.operation}s of ${of}: how many took how long,`, (to) => modesOf(to, sumsOf(side, filter), modes));
  }
  if ((kind === "bytes" || kind === "limit") && any) return drawn(`bytes per second of ${of} over time, up to`, (to) => bytesOf(to, sums));
  if (isHeat && any) return drawn(`latency of requests of ${of} over time,`, (to) => heatOf(to, sums));
  if (sums.waits.length === 0) return any ? drawn(`latency of requests of ${of} over time,`, (to) => heatOf(to, sums)) : null;
  return drawn(`threads blocked over time on ${of}:`, (to) => waitsOf(to, sums));
}

/** The chain of a finding: the one whose threads, file and device are those that it names. */
export function chainOf(chains: Chain[], data: DOMStringMap): [Chain | undefined, boolean] {
  const { file, process, device } = data as Record<string, string | undefined>;
  const named = (chain: Chain) => chain.steps.some((step) => step.process.replace(/ \(\d+\)$/, "") === process);
  const fits = (chain: Chain) =>
    (file !== undefined && chain.file === file ? 4 : 0) + (process !== undefined && named(chain) ? 2 : 0) +
    (device !== undefined && chain.device === device ? 1 : 0);
  // The longest comes first: it stays where several fit as well.
  const best = chains.reduce<Chain | undefined>((at, it) => (at && fits(at) >= fits(it) ? at : it), undefined);
  return [best, best !== undefined && fits(best) >= 2];
}

/** A canvas and its caption; `draw` says how the caption ends. */
function drawn(caption: string, draw: (to: CanvasRenderingContext2D) => string): HTMLElement | null {
  const canvas = h("canvas", { width: WIDTH * 2, height: HEIGHT * 2, role: "img" });
  const context = canvas.getContext("2d");
  if (!context) return null;
  context.scale(2, 2);
  const words = `${caption} ${draw(context)}`;
  canvas.setAttribute("aria-label", words);
  return h("figure", {}, canvas, h("figcaption", {}, words));
}

/** So many columns of a picture that one is two pixels wide. */
function grouped(values: Float64Array, columns: number): Float64Array {
  const groups = Math.min(WIDTH / 2, columns);
  const sums = new Float64Array(groups);
  values.forEach((value, at) => {
    const into = Math.min(groups - 1, Math.floor((at * groups) / columns));
    sums[into] = (sums[into] as number) + value;
  });
  return sums;
}

/** Layers of values, one on top of the other. */
function stacked(to: CanvasRenderingContext2D, layers: { values: Float64Array; colour: string }[]): number {
  const length = layers[0]?.values.length ?? 0;
  const sums = Array.from({ length }, (_, at) => layers.reduce((sum, it) => sum + (it.values[at] as number), 0));
  const most = Math.max(...sums, 1e-9);
  const step = WIDTH / length;
  for (let at = 0; at < length; at++) {
    let y = HEIGHT - 1;
    for (const layer of layers) {
      const tall = ((layer.values[at] as number) / most) * (HEIGHT - 6);
      to.fillStyle = layer.colour;
      to.fillRect(at * step, y - tall, step + 0.3, tall);
      y -= tall;
    }
  }
  base(to);
  return most;
}

function base(to: CanvasRenderingContext2D): void {
  to.fillStyle = colour("grid");
  to.fillRect(0, HEIGHT - 1, WIDTH, 1);
}

function bytesOf(to: CanvasRenderingContext2D, sums: Sums): string {
  const layers = OPERATIONS.map((_, at) => ({
    values: grouped(sums.bytes[at] as Float64Array, sums.columns),
    colour: colour(OPERATION_COLOURS[at] ?? "grey"),
  }));
  const most = stacked(to, layers);
  const length = layers[0]?.values.length ?? 1;
  const seconds = sums.side.length_ns / 1e9 / length;
  const read = (sums.bytes[0] ?? []).some((it) => it > 0) ? "reads blue" : "";
  const written = (sums.bytes[1] ?? []).some((it) => it > 0) ? "writes orange" : "";
  return `${bytes(most / seconds)}/s (${[read, written].filter(Boolean).join(", ")})`;
}

/** Requests per second, and the round number that they stayed at as a dashed line. */
function rateOf(to: CanvasRenderingContext2D, sums: Sums, limits: Limit[]): string {
  const layers = OPERATIONS.map((_, at) => ({
    values: grouped(sums.counts[at] as Float64Array, sums.columns), colour: colour(OPERATION_COLOURS[at] ?? "grey"),
  }));
  const length = sums.side.length_ns / 1e9;
  const perGroup = length / (layers[0]?.values.length ?? 1);
  const most = stacked(to, layers) / perGroup;
  to.strokeStyle = colour("alert");
  to.lineWidth = 1.5;
  to.setLineDash([5, 3]);
  for (const { from_s, to_s, requests_per_s } of limits) {
    const y = HEIGHT - 1 - (requests_per_s / most) * (HEIGHT - 6);
    to.beginPath();
    to.moveTo((from_s / length) * WIDTH, y);
    to.lineTo((Math.min(to_s, length) / length) * WIDTH, y);
    to.stroke();
  }
  to.setLineDash([]);
  const at = [...new Set(limits.map((it) => `${rate(it.requests_per_s)}/s`))];
  return `up to ${rate(most)}/s; dashed: flat at ${at.join(", ")}`;
}

/** How many requests took how long, with the medians of the two modes marked. */
function modesOf(to: CanvasRenderingContext2D, sums: Sums, modes: Modes): string {
  const [least, most] = usedBins(sums.latencies);
  const values = sums.latencies.slice(least, most + 1);
  // Square roots: the slow mode has few requests.
  const roots = values.map((value) => Math.sqrt(value));
  stacked(to, [{ values: roots, colour: colour("blue") }]);
  const step = WIDTH / values.length;
  to.strokeStyle = colour("alert");
  to.lineWidth = 2;
  to.setLineDash([3, 3]);
  for (const ns of [modes.fast_ns, modes.slow_ns]) {
    const x = (binOf(sums.side, ns) - least + 0.5) * step;
    to.beginPath();
    to.moveTo(x, 2);
    to.lineTo(x, HEIGHT - 1);
    to.stroke();
  }
  to.setLineDash([]);
  const slow = Math.max(1, Math.round(modes.slow_share * 100));
  return `two modes, of ${time(modes.fast_ns)} and ${time(modes.slow_ns)} (${slow} % of them); heights are square roots`;
}

function waitsOf(to: CanvasRenderingContext2D, sums: Sums): string {
  const layers = sums.waits.slice(0, 7).map(({ values }, at) => ({
    values: grouped(values, sums.columns), colour: nth(at),
  }));
  stacked(to, layers);
  const names = ["blue", "orange", "green"];
  return sums.waits.slice(0, 3).map(({ name }, at) => `${name} ${names[at]}`).join(", ");
}

function heatOf(to: CanvasRenderingContext2D, sums: Sums): string {
  const [least, most] = usedBins(sums.heat);
  const columns = Math.min(WIDTH / 2, sums.columns);
  const cells = new Float64Array(columns * LATENCY_BINS);
  sums.heat.forEach((value, at) => {
    if (value === 0) return;
    const column = Math.min(columns - 1, Math.floor((Math.floor(at / LATENCY_BINS) * columns) / sums.columns));
    const into = column * LATENCY_BINS + (at % LATENCY_BINS);
    cells[into] = (cells[into] as number) + value;
  });
  const highest = cells.reduce((highest, value) => Math.max(highest, value), 1);
  const [wide, tall, dark] = [WIDTH / columns, (HEIGHT - 2) / (most - least + 1), isDark()];
  cells.forEach((value, at) => {
    if (value === 0) return;
    const [column, bin] = [Math.floor(at / LATENCY_BINS), at % LATENCY_BINS];
    const [r, g, b] = heat(Math.log1p(value) / Math.log1p(highest), dark);
    to.fillStyle = `rgb(${r},${g},${b})`;
    to.fillRect(column * wide, HEIGHT - 1 - (bin - least + 1) * tall, Math.max(wide, 3), Math.max(tall, 3));
  });
  base(to);
  return `${time(binFrom(sums.side, least + 2))} to ${time(binFrom(sums.side, most - 2))}`;
}
