/** Who waited for whom: chains as a diagram, blame as a matrix. */

import { h, svg } from "./dom";
import { heat, isDark } from "./colours";
import { time } from "./format";
import type { Blame, Chain } from "./data";

const BOX = { width: 210, height: 54, gap: 64 };

/** One chain: the threads that waited first, what they waited for at the end; from left to right, or downwards. */
export function chainDiagram(chain: Chain, isUpright = false): SVGElement {
  const end = { title: chain.class, under: chain.file ?? "", third: chain.device ?? "" };
  const boxes = chain.steps.map((step) => ({
    title: step.threads > 1 ? `${step.threads} threads` : step.thread,
    under: step.process,
    third: "",
  }));
  boxes.push(end);
  const wide = isUpright ? 320 : BOX.width;
  const gap = isUpright ? 30 : BOX.gap;
  const along = (isUpright ? BOX.height : wide) * boxes.length + gap * (boxes.length - 1) + 4;
  const [width, height] = isUpright ? [wide + 4, along + 2] : [along, BOX.height + 6];
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", class: "chain" });
  const words = boxes.map((box) => `${box.title} ${box.under}`).join(", waited for ");
  root.append(svg("title", {}, `${words}: ${time(chain.time_ns)}`));
  const fits = (letters: number) => Math.floor((letters * wide) / BOX.width);
  boxes.forEach((box, at) => {
    const [x, y] = isUpright ? [2, 2 + at * (BOX.height + gap)] : [2 + at * (wide + gap), 2];
    const isEnd = at === boxes.length - 1;
    root.append(svg("rect", { x, y, width: wide, height: BOX.height, rx: 6, class: isEnd ? "box end" : "box" }));
    root.append(svg("text", { x: x + 10, y: y + 21, class: "strong" }, short(box.title, fits(28))));
    const under = box.third ? `${short(box.under, fits(22))} ${box.third}` : short(box.under, fits(32));
    root.append(svg("text", { x: x + 10, y: y + 41 }, under));
    if (!isEnd) root.append(...arrow(x, y, wide, gap, isUpright));
  });
  return root;
}

/** From the box at a place to the next one. */
function arrow(x: number, y: number, wide: number, gap: number, isUpright: boolean): SVGElement[] {
  if (isUpright) {
    const [middle, from] = [x + 30, y + BOX.height];
    return [
      svg("path", { d: `M${middle} ${from + 3} V${from + gap - 10}`, class: "arrow" }),
      svg("path", { d: `M${middle - 5} ${from + gap - 12} L${middle} ${from + gap - 3} L${middle + 5} ${from + gap - 12} Z`, class: "head" }),
      svg("text", { x: middle + 12, y: from + 19, class: "small" }, "waited for"),
    ];
  }
  const [from, middle] = [x + wide, y + BOX.height / 2];
  return [
    svg("path", { d: `M${from + 4} ${middle} H${from + gap - 10}`, class: "arrow" }),
    svg("path", { d: `M${from + gap - 12} ${middle - 5} L${from + gap - 3} ${middle} L${from + gap - 12} ${middle + 5} Z`, class: "head" }),
    svg("text", { x: from + 6, y: middle - 6, class: "small" }, "waited"),
  ];
}

/** Whether black has more contrast to a colour than white has (WCAG's relative luminance). */
function isLight(r: number, g: number, b: number): boolean {
  const linear = (part: number) => {
    const share = part / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) > 0.179;
}

function short(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.floor(most / 3);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - head - 1))}`;
}

/** All chains. */
export function chainSection(chains: Chain[]): HTMLElement | null {
  if (chains.length === 0) return null;
  const rows = chains.map((chain) => h("li", {},
    h("b", {}, time(chain.time_ns)),
    h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Wait chain" }, chainDiagram(chain) as unknown as Node)));
  return h("figure", { class: "panel", id: "chains" },
    h("figcaption", {}, h("h3", {}, "Wait chains"),
      h("span", { class: "faint" }, "threads that waited for threads that waited for storage; of the whole watch")),
    h("ol", { class: "chains" }, ...rows));
}

/** Whose requests were in service or ahead while somebody waited. */
export function blameSection(blame: Blame | null, choose: (process: string) => void): HTMLElement | null {
  if (!blame || blame.culprits.length === 0) return null;
  const most = Math.max(1, ...blame.times_ns.flat());
  const dark = isDark();
  const cell = (value: number, waiter: string, culprit: string) => {
    if (value === 0) return h("td", { class: "figure" });
    const [r, g, b] = heat(Math.sqrt(value / most), dark);
    const text = h("td", { class: "figure", title: `${waiter} waited ${time(value)} for ${culprit}` }, time(value));
    text.style.background = `rgb(${r} ${g} ${b})`;
    text.style.color = isLight(r, g, b) ? "#000" : "#fff";
    return text;
  };
  const name = (text: string) => h("button", { type: "button", class: "link",
    onclick: () => choose(text.replace(/ \(\d+\)$/, "")) }, text);
  return h("figure", { class: "panel", id: "blame" },
    h("figcaption", {}, h("h3", {}, "Who made whom wait"),
      h("span", { class: "faint" }, "rows waited; columns had requests in service or ahead meanwhile; of the whole watch")),
    h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Matrix of blame" },
      h("table", { class: "matrix" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "waited \\ for"),
          ...blame.culprits.map((culprit) => h("th", { scope: "col" }, name(culprit))))),
        h("tbody", {}, ...blame.waiters.map((waiter, row) => h("tr", {},
          h("th", { scope: "row" }, name(waiter)),
          ...blame.culprits.map((culprit, at) => cell(blame.times_ns[row]?.[at] ?? 0, waiter, culprit))))))));
}
