// In Locust's page: while the tab "Streaming" is open, the charts stand below its table.
"use strict";
(() => {
  let frame = null;
  const isDark = () => {
    const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
    return r + g + b < 384;
  };
  function look() {
    const open = new URLSearchParams(location.search).get("tab") === "streaming";
    const table = open ? document.querySelector('[data-sortkey="recent"]')?.closest("table")?.parentElement : null;
    if (!table) {
      frame?.remove();
      frame = null;
      return;
    }
    const theme = isDark() ? "dark" : "light";
    if (!frame || frame.dataset.theme !== theme || frame.previousElementSibling !== table) {
      frame?.remove();
      frame = document.createElement("iframe");
      frame.title = "Streaming figures over time";
      frame.dataset.theme = theme;
      frame.src = `./enginebench/?embedded=${theme}`;
      frame.style.cssText = `width:100%;height:1200px;border:0;margin-top:16px;color-scheme:${theme}`;
      table.after(frame);
      // On a narrow screen Locust's table scrolls: make it reachable from the keyboard.
      for (const [key, value] of Object.entries({ tabindex: "0", role: "group", "aria-label": "Streaming figures" })) table.setAttribute(key, value);
    }
  }
  addEventListener("message", (event) => {
    const height = event.origin === location.origin && frame && event.source === frame.contentWindow && event.data?.enginebenchHeight;
    if (height > 0) frame.style.height = `${Math.min(height, 6000)}px`;
  });
  // The form: options in groups, those of this scenario first; the values of the last start; Start always in view.
  const KEPT = "enginebench-form";
  let groups = null;
  fetch("./enginebench/live.json").then((answer) => answer.json()).then((live) => { groups = live.form; }).catch(() => {});
  const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
  const fields = (form) => [...form.querySelectorAll("input[name], select[name], textarea[name]")].filter((field) => field.type !== "hidden");
  function fill(field, value) {
    if (field.type === "checkbox") {
      if (field.checked !== value) field.click();
    } else if (field.value !== value) {
      const prototype = Object.getPrototypeOf(field);
      Object.getOwnPropertyDescriptor(prototype, "value").set.call(field, value);
      field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", { bubbles: true }));
    }
  }
  function arrange(form) {
    form.dataset.enginebench = "arranged";
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
    for (const field of fields(form)) if (field.name in kept) fill(field, kept[field.name]);
    form.addEventListener("submit", () => {
      const values = fields(form).map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]);
      sessionStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(values)));
    }, true);
    const start = form.querySelector("button[type=submit]");
    if (start) start.style.cssText += ";position:sticky;bottom:12px;z-index:2";
    const box = form.querySelector("[name=prompts]")?.closest(".MuiFormControl-root")?.parentElement;
    if (!box) return;
    // CSS order, not another order of nodes: React owns these nodes.
    box.style.display = "flex";
    box.style.flexDirection = "column";
    const known = new Set();
    groups.forEach(([title, names], number) => {
      const heading = document.createElement("h4");
      heading.textContent = title;
      heading.style.cssText = `order:${number * 100};margin:8px 0 0`;
      box.append(heading);
      names.forEach((name, place) => {
        const child = [...box.children].find((item) => item.querySelector(`[name=${camel(name)}]`));
        if (!child) return;
        known.add(child);
        child.style.order = number * 100 + place + 1;
      });
    });
    for (const child of box.children) if (child.tagName !== "H4" && !known.has(child) && child.querySelector("[name]")) child.style.display = "none";
  }
  setInterval(() => {
    look();
    const form = document.querySelector("[name=userCount]")?.closest("form");
    if (groups && form && !form.dataset.enginebench) arrange(form);
  }, 300);
})();
