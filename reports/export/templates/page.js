
"use strict";
// What a page can do besides being read: sort a table by a column, show one view of several, and
// unfold everything for print. Without scripts every table and every view is there all the same.

// Rows by a column: numbers by the exact value in data-value, words as people order them; what is
// missing stands last in either direction. The baseline keeps its mark, since that is its row's.
function sortRows(table, column, isNumber, isDescending) {
  const body = table.tBodies[0];
  const sign = isDescending ? -1 : 1;
  const keyed = [...body.rows].map((row) => {
    const cell = row.cells[column];
    const label = cell.querySelector(".label") ?? cell;
    const value = cell.dataset.value;
    const key = isNumber ? (value === undefined ? NaN : Number(value)) : label.textContent.trim();
    return { row, key, isMissing: isNumber ? Number.isNaN(key) : key === "" };
  });
  keyed.sort((a, b) => {
    if (a.isMissing || b.isMissing) return a.isMissing - b.isMissing;
    const order = isNumber ? a.key - b.key : a.key.localeCompare(b.key, "en", { numeric: true });
    return sign * order;
  });
  body.append(...keyed.map(({ row }) => row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Sort by this column";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const isDescending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
      sortRows(table, column, head.classList.contains("number"), isDescending);
    });
  });
}

for (const group of document.querySelectorAll(".views")) {
  const views = [...group.children];
  if (views.length < 2) continue;
  const bar = document.createElement("div");
  bar.className = "switch";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", group.dataset.title);
  const buttons = views.map((view) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = view.querySelector("h4").textContent;
    button.addEventListener("click", () => show(view));
    return button;
  });
  const show = (chosen) => {
    views.forEach((view, index) => {
      view.classList.toggle("is-off", view !== chosen);
      buttons[index].setAttribute("aria-pressed", String(view === chosen));
    });
  };
  bar.append(...buttons);
  group.prepend(bar);
  group.classList.add("is-switched");
  show(views[0]);
}

// A link to a part opens it.
for (const link of document.querySelectorAll('.contents a[href^="#"]')) {
  link.addEventListener("click", () => {
    const details = document.querySelector(`${link.getAttribute("href")} > details.part`);
    if (details) details.open = true;
  });
}

let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => folded.forEach((details) => { details.open = false; }));

// MLflow's viewer shows the page out of its folder: no link to a file leads anywhere from there.
if (location.protocol === "blob:") {
  for (const link of document.querySelectorAll("a[href]")) {
    const target = link.getAttribute("href");
    if (!target.startsWith("#")) link.removeAttribute("href");
    else link.addEventListener("click", (event) => {
      event.preventDefault();
      document.getElementById(target.slice(1))?.scrollIntoView();
    });
  }
}
