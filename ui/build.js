// Builds the page: `node build.js [directory]`. The same sources and lock give the same bytes.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, "../runtime/streamjob/page/ui");

/** The hash of all that the page is built from, by which a test without Node sees that the built files are current. */
async function sourceHash() {
  const hash = createHash("sha256");
  const sources = (await readdir(join(here, "src"), { recursive: true })).map((each) => `src/${each.replaceAll("\\", "/")}`);
  for (const name of ["build.js", "package-lock.json", ...sources.filter((each) => /\.\w+$/.test(each)).sort()]) {
    hash.update(`${name}\n`).update(await readFile(join(here, name)));
  }
  return hash.digest("hex");
}

await mkdir(target, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.js" },
  outdir: target,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome111", "firefox113", "safari16.4"],
  charset: "utf8",
  legalComments: "none",
  banner: { js: `/* Built by make ui from sources ${await sourceHash()}; contains preact (MIT) and htm (Apache-2.0) */` },
  logLevel: "warning",
});
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/app.css" },
  outdir: target,
  bundle: true,
  minify: true,
  target: ["chrome111", "firefox113", "safari16.4"],
  charset: "utf8",
  logLevel: "warning",
});
for (const name of ["index.html", "jobs.html"]) await copyFile(join(here, "src", name), join(target, name));
