// Open pages in Chromium and print what is seen there, as JSON: node check.mjs PAGE...
// What of it is a fault is for the tests to say.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const here = path.dirname(fileURLToPath(import.meta.url));
const axe = path.join(here, "node_modules/axe-core/axe.min.js");
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
const VIEWS = {
  light: { width: 1280, colorScheme: "light" },
  dark: { width: 1280, colorScheme: "dark" },
  phone: { width: 360, colorScheme: "light" },
  "phone, dark": { width: 360, colorScheme: "dark" },
};

const column = (table, place) =>
  [...table.tBodies[0].rows].map((row) => row.cells[place].textContent.trim());

// Read a table, and sort it by each of its headings, with the keyboard, up and down.
async function read(table) {
  const headings = await table.locator("thead th").all();
  const columns = [];
  for (const [place, heading] of headings.entries()) {
    const name = await heading.textContent();
    columns.push({ name, before: await table.evaluate(column, place) });
  }
  for (const [place, heading] of headings.entries()) {
    await heading.locator("button").focus();
    for (const order of ["ascending", "descending"]) {
      await heading.locator("button").press("Enter");
      columns[place][order] = await table.evaluate(column, place);
      columns[place][`said ${order}`] = await heading.getAttribute("aria-sort");
    }
  }
  return { caption: await table.locator("caption").textContent(), columns };
}

async function look(context, file) {
  const page = await context.newPage();
  const seen = { errors: [], outside: [], faults: {}, wider: {}, tables: [] };
  page.on("console", (said) => {
    if (["error", "warning"].includes(said.type())) seen.errors.push(said.text());
  });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("requestfailed", (request) => seen.errors.push(`no ${request.url()}`));
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) seen.outside.push(request.url());
  });
  await page.goto(pathToFileURL(file).href, { waitUntil: "load" });
  seen.links = await page.$$eval("a[href], img[src], link[href], script[src]", (all) =>
    all.map((one) => one.href || one.src).filter((href) => !href.startsWith("data:")));
  seen.targets = await page.$$eval("[id]", (all) => all.map((one) => one.id));
  seen.text = await page.evaluate(() => document.body.textContent);
  for (const [view, { width, colorScheme }] of Object.entries(VIEWS)) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    seen.wider[view] = await page.evaluate(
      () => document.documentElement.scrollWidth - window.innerWidth);
    await page.addScriptTag({ path: axe });
    // Without preload: axe would ask for the style sheet, which a page on disk may not.
    const result = await page.evaluate(() => window.axe.run({ preload: false }));
    seen.faults[view] = result.violations
      .filter((one) => ["serious", "critical"].includes(one.impact))
      .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((n) => n.html).join(" ")}`);
  }
  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  seen.folded = await page.locator("details:not([open])").count();
  for (const table of await page.locator("table.sortable").all()) {
    seen.tables.push(await read(table));
  }
  await page.close();
  return seen;
}

const profile = fs.mkdtempSync(path.join(os.tmpdir(), "chromium-"));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  headless: true,
  args: FLAGS,
});
context.setDefaultTimeout(300_000); // a machine may be busy
try {
  const seen = {};
  for (const file of process.argv.slice(2)) {
    seen[path.basename(file)] = await look(context, path.resolve(file));
  }
  console.log(JSON.stringify(seen));
} finally {
  await context.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
