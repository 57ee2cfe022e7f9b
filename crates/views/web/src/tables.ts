/** Tables: those of the document become sortable and searchable; those of a selection are made here. */

import { copy, csv, h } from "./dom";
import { worth } from "./format";

/** Makes every table of the document sortable, searchable and copyable. */
export function enhance(root: ParentNode): void {
  for (const table of root.querySelectorAll<HTMLTableElement>("table.sortable")) {
    sortable(table);
    tools(table);
  }
}

function rows(table: HTMLTableElement): HTMLTableRowElement[] {
  return [...(table.tBodies[0]?.rows ?? [])];
}

/** Headings become buttons; the state stands in aria-sort. */
export function sortable(table: HTMLTableElement): void {
  const original = rows(table);
  const headings = [...(table.tHead?.rows[0]?.cells ?? [])];
  headings.forEach((heading, at) => {
    const button = h("button", { type: "button", class: "sort" }, ...heading.childNodes);
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const before = heading.getAttribute("aria-sort");
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      const next = before === "descending" ? "ascending" : before === "ascending" ? null : "descending";
      if (next) heading.setAttribute("aria-sort", next);
      table.tBodies[0]?.append(...(next ? sorted(original, at, next === "ascending") : original));
    });
  });
}

/** Rows by a column: figures by what they are worth, texts by letters; what is not known comes last. */
function sorted(all: HTMLTableRowElement[], at: number, rising: boolean): HTMLTableRowElement[] {
  const value = (row: HTMLTableRowElement) => worth(row.cells[at]?.textContent ?? "");
  return [...all].sort((a, b) => {
    const [left, right] = [value(a), value(b)];
    const order = typeof left === "number" && typeof right === "number"
      ? left - right : String(left).localeCompare(String(right));
    return rising ? order : -order;
  });
}

function tools(table: HTMLTableElement): void {
  const all = rows(table);
  const search = h("input", { type: "search", placeholder: "Search rows", "aria-label": "Search rows" });
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const row of all) row.hidden = !(row.textContent ?? "").toLowerCase().includes(wanted);
  });
  const button = csvButton(() => tableRows(table));
  const bar = h("div", { class: "tools" }, ...(all.length > 6 ? [search] : []), button);
  table.parentElement?.insertBefore(bar, table);
}

export function csvButton(content: () => string[][]): HTMLButtonElement {
  const button = h("button", { type: "button" }, "Copy as CSV");
  button.addEventListener("click", () => {
    void copy(csv(content())).then((done) => {
      button.textContent = done ? "Copied" : "Not allowed to copy";
      setTimeout(() => (button.textContent = "Copy as CSV"), 1500);
    });
  });
  return button;
}

/** Headings and the rows that are shown. */
export function tableRows(table: HTMLTableElement): string[][] {
  const text = (cell: HTMLTableCellElement) => (cell.textContent ?? "").trim();
  const head = [...(table.tHead?.rows[0]?.cells ?? [])].map(text);
  const shown = rows(table).filter((row) => !row.hidden);
  return [head, ...shown.map((row) => [...row.cells].map(text))];
}
