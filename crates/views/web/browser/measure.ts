/** What one page costs in Chromium: `npm run measure -- PAGE`; one line of JSON, which `bench-html` reads. */

import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { launch, open, ready } from "./harness";

const FRAMES = 90;

/** Frames per second while the selected time moves along the strip on top. */
async function brush(page: Page): Promise<number> {
  const strip = page.locator(".overview canvas");
  await strip.scrollIntoViewIfNeeded();
  const box = await strip.boundingBox();
  if (!box) throw new Error("failed to find the strip");
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * 0.2, y);
  await page.mouse.down();
  // The browser's own events come as fast as this program sends them: the page makes its own.
  const fps = await page.evaluate(async ([frames, left, width, at]) => {
    const canvas = document.querySelector(".overview canvas");
    const begin = performance.now();
    for (let frame = 0; frame < frames; frame++) {
      const clientX = left + width * (0.3 + (0.5 * frame) / frames);
      canvas?.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY: at, bubbles: true }));
      await new Promise((done) => requestAnimationFrame(done));
    }
    return (frames * 1000) / (performance.now() - begin);
  }, [FRAMES, box.x, box.width, y] as const);
  await page.mouse.up();
  await page.keyboard.press("Escape");
  return fps;
}

/** Frames per second while a row is selected and not, in turns. */
async function filter(page: Page): Promise<number> {
  return await page.evaluate(async (frames) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const begin = performance.now();
    for (let at = 0; at < frames; at++) {
      document.querySelector<HTMLElement>("[data-dimension=process] button.link")?.click();
      await frame();
    }
    return (frames * 1000) / (performance.now() - begin);
  }, FRAMES);
}

/** Memory of the page's process, in MB: of those that draw, the largest. What processes share counts in parts. */
async function memory(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  let most = 0;
  for (const { type, id } of processInfo) {
    if (type !== "renderer") continue;
    const text = readFileSync(`/proc/${id}/smaps_rollup`, "utf8");
    most = Math.max(most, Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1] ?? 0));
  }
  return most / 1000;
}

const [path] = process.argv.slice(2);
if (!path) throw new Error("usage: measure PAGE");
const browser = await launch();
try {
  const { page, complaints } = await open(browser, path);
  await ready(page);
  const first_ms = await page.evaluate(() => Number(document.body.dataset["drawn"]));
  const brush_fps = await brush(page);
  await ready(page);
  const filter_fps = await filter(page);
  if (complaints.length > 0) throw new Error(complaints.join("\n"));
  console.log(JSON.stringify({ first_ms, brush_fps, filter_fps, memory_mb: await memory(browser) }));
} finally {
  await browser.close();
}
