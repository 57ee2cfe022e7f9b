/** What is selected: a time, a latency range, and one of each dimension. It lives in the page's address. */

/** What can be chosen by name. */
export const DIMENSIONS = ["device", "process", "container", "file", "operation"] as const;
export type Dimension = (typeof DIMENSIONS)[number];

/** What stands for none, and for all that are not listed. */
export const NONE = "(none)";
export const OTHERS = "(others)";

export interface Filter {
  /** Nanoseconds since the first column begins. */
  time: [number, number] | null;
  /** Latency bins, the last one is in it. */
  latency: [number, number] | null;
  names: Partial<Record<Dimension, string>>;
}

export const EMPTY: Filter = { time: null, latency: null, names: {} };

export function isEmpty(filter: Filter): boolean {
  return !filter.time && !filter.latency && Object.keys(filter.names).length === 0;
}

/** The filter with one name chosen, or without it where it was. */
export function toggled(filter: Filter, dimension: Dimension, name: string): Filter {
  const { [dimension]: before, ...names } = filter.names;
  return { ...filter, names: before === name ? names : { ...names, [dimension]: name } };
}

/** The filter as an address's fragment. */
export function toFragment(filter: Filter): string {
  const parts = new URLSearchParams();
  if (filter.time) parts.set("t", filter.time.map((it) => Math.round(it / 1e3)).join("-"));
  if (filter.latency) parts.set("l", filter.latency.join("-"));
  for (const dimension of DIMENSIONS) {
    const name = filter.names[dimension];
    if (name !== undefined) parts.set(dimension, name);
  }
  return parts.toString();
}

/** The filter in an address's fragment; what is no filter is left out. */
export function fromFragment(fragment: string): Filter {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const range = (name: string): [number, number] | null => {
    const match = /^(\d{1,15})-(\d{1,15})$/.exec(parts.get(name) ?? "");
    const [from, to] = [Number(match?.[1]), Number(match?.[2])];
    return match && from <= to ? [from, to] : null;
  };
  const time = range("t");
  const names: Filter["names"] = {};
  for (const dimension of DIMENSIONS) {
    const name = parts.get(dimension);
    if (name !== null) names[dimension] = name;
  }
  return {
    time: time ? [time[0] * 1e3, time[1] * 1e3] : null,
    latency: range("l"),
    names,
  };
}
