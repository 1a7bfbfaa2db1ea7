// Builds the page that crates/viewer carries: markup, style and script in one file, with nothing to ask a network for.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
const out = process.argv[2] ?? `${here}../crates/viewer/assets/page.html`;

async function bundled(entry) {
  const options = { entryPoints: [`${here}src/${entry}`], bundle: true, minify: true, write: false, charset: "utf8" };
  const { outputFiles } = await build({ ...options, format: "iife", target: ["es2022"], legalComments: "none" });
  return outputFiles[0].text.trim();
}

const hash = (text) => `sha256-${createHash("sha256").update(text).digest("base64")}`;

const script = (await bundled("main.ts")).replaceAll("</script", "<\\/script");
const style = await bundled("style.css");
const page = readFileSync(`${here}src/page.html`, "utf8")
  .replace("{SCRIPT-HASH}", () => hash(script))
  .replace("{STYLE-HASH}", () => hash(style))
  .replace("{STYLE}", () => style)
  .replace("{SCRIPT}", () => script);
if (page.split("MILLPOND-COLUMNS").length !== 2) throw new Error("the mark for the columns must stand in the page once");
writeFileSync(out, page);
