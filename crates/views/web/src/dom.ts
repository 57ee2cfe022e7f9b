/** Elements of the page. Texts are always texts: nothing here takes markup. */

type Attributes = Record<string, string | number | boolean | ((event: Event) => void)>;

/** An element with attributes, listeners (`onclick`) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children);
  return element;
}

/** Gives an element of text another text. Drawn anew for each frame, new nodes would be megabytes of garbage. */
export function setText(element: Element, text: string): void {
  const own = element.firstChild;
  if (!(own instanceof Text)) element.append(text);
  else if (own.data !== text) own.data = text;
}

/** Gives an element other children, unless it has just these: elements that stay keep the focus. */
export function setChildren(element: Element, children: Element[]): void {
  const isSame = element.children.length === children.length &&
    children.every((child, at) => element.children[at] === child);
  if (!isSame) element.replaceChildren(...children);
}

/** An SVG element. */
export function svg(tag: string, attributes: Record<string, string | number>, text?: string): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Lets a screen reader say something. */
export function announce(text: string): void {
  let live = document.getElementById("live");
  if (!live) {
    live = h("p", { id: "live", class: "unseen", "aria-live": "polite" });
    document.body.append(live);
  }
  live.textContent = text;
}

/** Calls once per frame, however often it is asked. */
export function perFrame(run: () => void): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      run();
    });
  };
}

/** How long charts that nobody sees wait for the selection to rest, milliseconds. */
const REST = 150;

/** Draws a chart at once where it is seen; where it is not, once the selection rests or it comes into view. */
export class WhenSeen {
  static readonly #waiting = new Set<WhenSeen>();
  static #timer: ReturnType<typeof setTimeout> | undefined;
  // The first picture is of everything.
  #isSeen = true;

  constructor(element: Element, readonly draw: () => void) {
    const seen = (entries: IntersectionObserverEntry[]) => {
      this.#isSeen = entries.some((entry) => entry.isIntersecting);
      if (this.#isSeen && WhenSeen.#waiting.delete(this)) this.draw();
    };
    new IntersectionObserver(seen, { rootMargin: "100px" }).observe(element);
  }

  ask(): void {
    if (this.#isSeen) return this.draw();
    WhenSeen.#waiting.add(this);
    clearTimeout(WhenSeen.#timer);
    WhenSeen.#timer = setTimeout(() => {
      const all = [...WhenSeen.#waiting];
      WhenSeen.#waiting.clear();
      all.forEach((it) => it.draw());
    }, REST);
  }
}

/** Copies a text, also from a file that was opened from disk. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "unseen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** A table as CSV (RFC 4180). */
export function csv(rows: string[][]): string {
  const cell = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
