// Bundles the page's script and style into the folder that is named, with their hashes for the page's
// policy and the licences of what is bundled. With --tests: the tests, for node.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const files = (folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => join(folder, name));

if (process.argv.includes("--tests")) {
  await build({
    entryPoints: [...files("test"), ...files("browser"), "browser/measure.ts", "browser/screenshots.ts"],
    outdir: "dist-tests",
    outbase: ".",
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    packages: "external",
    sourcemap: "inline",
    logLevel: "warning",
  });
} else {
  const folder = process.argv[2] ?? "dist";
  mkdirSync(folder, { recursive: true });
  await build({
    entryPoints: { page: "src/page.ts" },
    outdir: folder,
    bundle: true,
    minify: true,
    target: "es2022",
    format: "iife",
    legalComments: "none",
    logLevel: "warning",
  });
  for (const name of ["page.js", "page.css"]) {
    const path = join(folder, name);
    // A script ends at the first end tag, wherever it stands.
    const text = readFileSync(path, "utf8").trim().replaceAll("</", "<\\/");
    writeFileSync(path, text);
    const hash = createHash("sha256").update(text).digest("base64");
    writeFileSync(`${path}.sha256`, hash);
  }
  const licence = readFileSync("node_modules/uplot/LICENSE", "utf8").trim();
  const { version } = JSON.parse(readFileSync("node_modules/uplot/package.json", "utf8"));
  writeFileSync(join(folder, "licences.txt"), `uPlot ${version}\n\n${licence}\n`);
}
