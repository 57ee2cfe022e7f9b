/** Pictures of pages, to be looked at: `npm run screenshots -- OUT PAGE...`. Of the first page also the top alone, for the README. */

import { mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { launch, open, ready } from "./harness";

const [out, ...pages] = process.argv.slice(2);
if (!out || pages.length === 0) throw new Error("usage: screenshots OUT PAGE...");
mkdirSync(out, { recursive: true });
const browser = await launch();
for (const path of pages) {
  const name = basename(path, ".html");
  for (const [kind, width, colorScheme] of [["light", 1280, "light"], ["dark", 1280, "dark"], ["phone", 400, "light"]] as const) {
    const { page, context } = await open(browser, path, { viewport: { width, height: 900 }, colorScheme });
    await ready(page);
    await page.screenshot({ path: join(out, `${name}-${kind}.png`), fullPage: true });
    await context.close();
  }
}
const [first] = pages;
if (first) {
  const { page } = await open(browser, first, { viewport: { width: 1120, height: 1560 } });
  await ready(page);
  await page.screenshot({ path: join(out, "readme.png") });
}
await browser.close();
