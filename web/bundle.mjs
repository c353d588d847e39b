// After a build: tidies the bundle. With --check: builds aside and says whether the committed bundle is that of the sources.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "vite";

const committed = new URL("../src/plait/views/static/", import.meta.url);
const files = ["page.js", "page.css"];

if (process.argv.includes("--check")) {
  const aside = mkdtempSync(join(tmpdir(), "plait-page-"));
  await build({ logLevel: "error", build: { outDir: aside, emptyOutDir: true } });
  const stale = files.filter((name) => readFileSync(join(aside, name), "utf8") !== readFileSync(new URL(name, committed), "utf8"));
  rmSync(aside, { recursive: true });
  if (stale.length > 0) {
    console.error(`src/plait/views/static is not what web/ builds (${stale.join(", ")}); run \`npm run build\` in web/`);
    process.exit(1);
  }
  console.log("the committed page is what web/ builds");
} else {
  // Both stand inside the page: neither may hold what would end its element.
  for (const name of files) {
    if (/<\/(script|style)|<!--/i.test(readFileSync(new URL(name, committed), "utf8"))) {
      console.error(`${name} holds markup that would end its element in the page`);
      process.exit(1);
    }
  }
}
