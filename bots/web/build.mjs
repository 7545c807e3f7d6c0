// SPDX-License-Identifier: BSD-2-Clause
// Bundles the call page into the package: node build.mjs [DIRECTORY]

import { copyFile, mkdir, readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../../pipecat_async_tools/call_page");

// The transport's other media manager would bring this in, and load a script from the internet with it.
const withoutDaily = {
  name: "without-daily",
  setup(build) {
    build.onResolve({ filter: /^@daily-co\/daily-js$/ }, ({ path }) => ({ path, namespace: "empty" }));
    build.onLoad({ filter: /.*/, namespace: "empty" }, () => ({ contents: "export default {};" }));
  },
};

const options = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "eof",
  pure: ["console.log"],
  plugins: [withoutDaily],
  logLevel: "warning",
};

async function licences(metafile) {
  const inputs = Object.keys(metafile.inputs);
  const found = inputs.map((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]).filter(Boolean);
  return (await Promise.all([...new Set(found)].sort().map(licence))).join("\n");
}

async function licence(name) {
  const directory = join(here, "node_modules", name);
  const about = JSON.parse(await readFile(join(directory, "package.json"), "utf8"));
  const file = (await readdir(directory)).sort().find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? await readFile(join(directory, file), "utf8") : await sameOwners(name);
  return `${name} ${about.version} (${about.license})\n\n${text.trim().replaceAll("*/", "* /")}\n`;
}

// Packages of Pipecat that come without the file are under the licence of those that have it.
async function sameOwners(name) {
  if (!name.startsWith("@pipecat-ai/")) throw new Error(`${name} has no licence file`);
  return readFile(join(here, "node_modules/@pipecat-ai/small-webrtc-transport/LICENSE"), "utf8");
}

await mkdir(out, { recursive: true });
const entry = { entryPoints: { app: "src/main.js" } };
const { metafile } = await esbuild.build({ ...options, ...entry, write: false, metafile: true, outdir: out });
const footer = `/*!\nSPDX-License-Identifier: BSD-2-Clause\nBuilt from bots/web by build.mjs. Contains:\n\n${await licences(metafile)}*/`;
await esbuild.build({ ...options, ...entry, outdir: out, footer: { js: footer } });
await esbuild.build({ ...options, entryPoints: { app: "src/style.css" }, outdir: out });
await copyFile(join(here, "index.html"), join(out, "index.html"));
