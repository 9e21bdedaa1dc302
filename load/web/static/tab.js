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
  setInterval(look, 300);
})();
