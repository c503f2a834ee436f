"use strict";
// Pages are complete without this: it sorts tables, shows what a point says by touch,
// and opens for printing what is folded away.

function key(cell) {
  const text = cell.textContent.trim();
  const number = Number(text.replace(/^(-?)inf$/, "$1Infinity"));
  return text === "" ? null : Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null); // empty ones last
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}

function sort(table, heading, column) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
  rows.sort(([a], [b]) => {
    const order = compare(a, b);
    return down && a !== null && b !== null ? -order : order;
  });
  body.append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, heading, column));
    heading.append(button);
  });
}

const said = document.querySelector(".tip");
for (const point of document.querySelectorAll(".tips circle")) {
  for (const kind of ["pointerenter", "click"]) {
    point.addEventListener(kind, () => {
      document.querySelector(".tips .chosen")?.classList.remove("chosen");
      point.classList.add("chosen");
      said.textContent = point.textContent;
    });
  }
}

window.addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});
