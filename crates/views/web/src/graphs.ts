/** Who waited for whom: chains as a diagram, blame as a matrix. */

import { h, svg } from "./dom";
import { heat, isDark } from "./colours";
import { time } from "./format";
import type { Blame, Chain } from "./data";

const BOX = { width: 210, height: 54, gap: 64 };

/** One chain: the threads that waited on the left, what they waited for at the right end. */
export function chainDiagram(chain: Chain): SVGElement {
  const end = { title: chain.class, under: chain.file ?? "", third: chain.device ?? "" };
  const boxes = chain.steps.map((step) => ({
    title: step.threads > 1 ? `${step.threads} threads` : step.thread,
    under: step.process,
    third: "",
  }));
  boxes.push(end);
  const width = boxes.length * BOX.width + (boxes.length - 1) * BOX.gap + 4;
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${BOX.height + 6}`, width, height: BOX.height + 6, role: "img", class: "chain",
  });
  const words = boxes.map((box) => `${box.title} ${box.under}`).join(", waited for ");
  root.append(svg("title", {}, `${words}: ${time(chain.time_ns)}`));
  boxes.forEach((box, at) => {
    const x = 2 + at * (BOX.width + BOX.gap);
    const isEnd = at === boxes.length - 1;
    root.append(svg("rect", {
      x, y: 2, width: BOX.width, height: BOX.height, rx: 6, class: isEnd ? "box end" : "box",
    }));
    root.append(svg("text", { x: x + 10, y: 23, class: "strong" }, short(box.title, 28)));
    const under = box.third ? `${short(box.under, 22)} ${box.third}` : short(box.under, 32);
    root.append(svg("text", { x: x + 10, y: 43 }, under));
    if (isEnd) return;
    const from = x + BOX.width;
    const y = 2 + BOX.height / 2;
    root.append(svg("path", { d: `M${from + 4} ${y} H${from + BOX.gap - 10}`, class: "arrow" }));
    root.append(svg("path", {
      d: `M${from + BOX.gap - 12} ${y - 5} L${from + BOX.gap - 3} ${y} L${from + BOX.gap - 12} ${y + 5} Z`,
      class: "head",
    }));
    root.append(svg("text", { x: from + 6, y: y - 6, class: "small" }, "waited"));
  });
  return root;
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
