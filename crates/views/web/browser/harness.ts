/** Chromium without network, and pages in it. What a page logs as an error fails its test. */

import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from "playwright-core";
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";

const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

/** Chromium of this machine; it has no network and a profile of its own. */
export async function launch(): Promise<Browser> {
  const executablePath = PROGRAMS.find((path) => existsSync(path));
  if (!executablePath) throw new Error("failed to find chromium; hint: scripts/install-deps web");
  return await chromium.launch({ executablePath, headless: true, args: FLAGS });
}

export interface Opened {
  page: Page;
  context: BrowserContext;
  /** What the page logged as warning or error, and what it tried to load. */
  complaints: string[];
}

/** Opens a page from disk, with network off. */
export async function open(
  browser: Browser, path: string, options: BrowserContextOptions = {}, fragment = "",
): Promise<Opened> {
  const context = await browser.newContext({ offline: true, viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith("file:") && !request.url().startsWith("data:")) complaints.push(`loads ${request.url()}`);
  });
  await page.goto(pathToFileURL(path).href + fragment);
  return { page, context, complaints };
}

/** Waits until the charts are drawn. */
export async function ready(page: Page): Promise<void> {
  await page.waitForFunction(() => document.body.dataset["ready"] !== undefined, undefined, { timeout: 20_000 });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}
