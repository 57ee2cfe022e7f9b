/** Colours, from the page's style: the same in light, dark and print. */

/** What was read of the style: reading it is slow, and charts ask for each rectangle. */
const known = new Map<string, string>();

/** The value of a custom property, `--ink` for one. */
export function colour(name: string): string {
  let value = known.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
    known.set(name, value);
  }
  return value;
}

/** Forgets what was read: the page changed between light and dark. */
export function forget(): void {
  known.clear();
}

export const OPERATION_COLOURS = ["blue", "orange", "green", "pink", "grey"];
export const STAGE_COLOURS = ["pink", "yellow", "orange", "green", "blue"];

/** The colour of the nth of many things: those of Okabe and Ito, which remain distinct with colour blindness. */
export function nth(at: number): string {
  const names = ["blue", "orange", "green", "pink", "sky", "yellow", "red", "grey"];
  return colour(names[Math.min(at, names.length - 1)] ?? "grey");
}

/** A colour of the heat map for a share of the most, as RGB. */
export function heat(share: number, dark: boolean): [number, number, number] {
  const stops = dark
    ? [[44, 92, 146], [20, 122, 172], [22, 150, 150], [160, 200, 90], [255, 238, 130]]
    : [[205, 228, 244], [120, 178, 222], [46, 118, 186], [22, 66, 132], [10, 20, 66]];
  const at = Math.min(0.9999, Math.max(0, share)) * (stops.length - 1);
  const [low, part] = [Math.floor(at), at % 1];
  const [a, b] = [stops[low] as number[], stops[low + 1] as number[]];
  return [0, 1, 2].map((i) => Math.round((a[i] as number) * (1 - part) + (b[i] as number) * part)) as
    [number, number, number];
}

export function isDark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
}
