"use strict";
(() => {
  const root = document.documentElement;
  const said = document.getElementById("said");
  const button = (text, label, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    if (label) made.setAttribute("aria-label", label);
    made.addEventListener("click", () => act(made));
    return made;
  };

  // Theme: as the system says, until one is chosen; remembered where the browser lets a local file remember.
  const remember = (value) => { try { localStorage.setItem("enginebench-theme", value); } catch { /* not allowed */ } };
  try {
    const kept = localStorage.getItem("enginebench-theme");
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch { /* not allowed */ }
  const isDark = () => root.dataset.theme === "dark" ||
    (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const name = () => (isDark() ? "Light theme" : "Dark theme");
  const theme = button(name(), "", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    theme.textContent = name();
  });
  const tools = document.getElementById("tools");
  tools.append(theme, button("Open all", "Open all folded parts", (b) => {
    const open = b.textContent === "Open all";
    for (const part of document.querySelectorAll("details")) part.open = open;
    b.textContent = open ? "Fold all" : "Open all";
    b.setAttribute("aria-label", open ? "Fold all parts" : "Open all folded parts");
  }));

  const rows = (table) => [...table.rows].filter((row) => !row.hasAttribute("data-nocopy")).map((row) => [...row.cells]
    .filter((cell) => !cell.hasAttribute("data-nocopy"))
    .map((cell) => cell.textContent.replace(/\s+/g, " ").trim()));
  const markdown = (table) => {
    const all = rows(table).map((row) => "| " + row.map((text) =>
      text.replace(/[\\`*_{}[\]<>|~]/g, "\\$&")).join(" | ") + " |");
    const columns = rows(table)[0].length;
    all.splice(1, 0, "|" + " --- |".repeat(columns));
    return all.join("\n") + "\n";
  };
  // A cell that a spreadsheet would take for a formula is made text.
  const csv = (table) => rows(table).map((row) => row.map((text) => {
    const safe = /^([=@]|[+-](?![\d.]))/.test(text) ? "'" + text : text;
    return /[",\n]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
  }).join(",")).join("\r\n") + "\r\n";
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };
  for (const table of document.querySelectorAll("table[data-copy]")) {
    const line = document.createElement("p");
    line.className = "copy";
    for (const [kind, make] of [["Markdown", markdown], ["CSV", csv]]) {
      line.append(button(kind, "Copy " + table.dataset.copy + " as " + kind, async (b) => {
        await copy(make(table));
        said.textContent = "Copied as " + kind;
        b.textContent = "Copied";
        setTimeout(() => { b.textContent = kind; }, 1200);
      }));
    }
    table.parentElement.before(line);
  }
  window.enginebench = { markdown, csv };
  addEventListener("beforeprint", () => { for (const d of document.querySelectorAll(".problem")) d.open = true; });
})();
