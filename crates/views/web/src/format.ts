/** Figures as a person reads them, as on a terminal (`model/src/quantities.rs`). */

function three(value: number): string {
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return value.toFixed(digits);
}

function scaled(value: number, step: number, units: string[]): string {
  let at = 0;
  while (value >= step - 0.5 && at < units.length - 1) {
    value /= step;
    at++;
  }
  return `${three(value)} ${units[at] ?? ""}`;
}

export function time(ns: number): string {
  if (!Number.isFinite(ns)) return "-";
  if (ns < 999.5) return `${Math.round(ns)} ns`;
  if (ns >= 3 * 8.64e13) return `${three(ns / 8.64e13)} d`;
  if (ns >= 3 * 3.6e12) return `${three(ns / 3.6e12)} h`;
  if (ns >= 6e11) return `${three(ns / 6e10)} min`;
  return scaled(ns / 1e3, 1e3, ["µs", "ms", "s"]);
}

export function bytes(value: number): string {
  if (value < 1023.5) return `${Math.round(value)} B`;
  return scaled(value / 1024, 1024, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
}

export function count(value: number): string {
  if (value >= 1e7) return scaled(value / 1e6, 1e3, ["M", "G", "T", "P", "E"]);
  return Math.round(value).toLocaleString("en-US");
}

/** How often, or how much on average: small numbers keep their digits. */
export function rate(value: number): string {
  if (value <= 0) return "0";
  if (value < 0.005) return "<0.01";
  return value >= 999.5 ? count(value) : three(value);
}

export function percent(share: number): string {
  const value = share * 100;
  if (value <= 0) return "0 %";
  if (value < 0.05) return "<0.1 %";
  // Only a whole is 100 %; sums of many shares are a little off.
  if (value >= 99.95 && value < 100 - 1e-6) return ">99.9 %";
  return `${value >= 99.95 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** Seconds since the beginning, with as many digits as distinguish two steps. */
export function seconds(value: number, step: number): string {
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(Math.max(step, 1e-9)))));
  return `${value.toFixed(digits)} s`;
}

/** The wall clock of the watch's host. */
export function clock(unixMs: number, offsetS: number, digits: number): string {
  const text = new Date(unixMs + offsetS * 1000).toISOString();
  return digits > 0 ? text.slice(11, 20 + digits) : text.slice(11, 19);
}

/** What a cell of a table is worth when it sorts: a figure with its unit, or a text. */
export function worth(text: string): number | string {
  const plain = text.trim().replace(/^[≥<>~]+/, "").replace(/,/g, "");
  if (plain === "" || plain === "-" || plain === "?" || plain === "−") return -Infinity;
  const match = /^([+-]?\d+(?:\.\d+)?)(?:\s*([A-Za-zµ%]+))?$/.exec(plain);
  if (!match) return text.toLowerCase();
  const factor = UNITS[match[2] ?? ""];
  return factor === undefined ? text.toLowerCase() : Number(match[1]) * factor;
}

const UNITS: Record<string, number> = {
  "": 1, "%": 1, ns: 1, µs: 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12, d: 8.64e13,
  B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4, PiB: 1024 ** 5, M: 1e6, G: 1e9,
};
