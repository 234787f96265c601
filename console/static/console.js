// Live updates: the server sends the changed part of the page, rendered; this puts it in its place.
"use strict";

const page = document.body.dataset.live;
const mark = document.querySelector(".live-mark");
const words = document.querySelector("[data-live-words]");

function say(state, text) {
  mark.classList.toggle("on", state === "on");
  mark.classList.toggle("lost", state === "lost");
  if (words.textContent !== text) words.textContent = text;
}

function replaceHtml(html) {
  const place = document.querySelector("[data-live-html]");
  if (!place || place.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) return;
  // What had the focus keeps it: a keyboard does not start at the top again.
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const href = focused && focused.getAttribute("href");
  const open = [...place.querySelectorAll("details")].map((one) => one.open);
  place.innerHTML = html;
  place.querySelectorAll("details").forEach((one, n) => { if (open[n]) one.open = true; });
  if (href) {
    const again = place.querySelector(`[href="${CSS.escape(href)}"]`);
    if (again) again.focus({ preventScroll: true });
  }
  document.dispatchEvent(new Event("replaced"));
}

function replaceRows(rows) {
  const place = document.querySelector("[data-live-rows]");
  for (const [name, html] of Object.entries(rows)) {
    const row = place.querySelector(`[data-device="${CSS.escape(name)}"]`);
    if (!row || row.contains(document.activeElement)) continue;
    const made = document.createElement("tbody");
    made.innerHTML = html;
    const fresh = made.querySelector("tr");
    if (fresh.querySelector(".badge").textContent !== row.querySelector(".badge").textContent) fresh.classList.add("fresh");
    row.replaceWith(fresh);
  }
}

if (page && window.EventSource) {
  const query = new URLSearchParams(location.search);
  query.set("since", document.body.dataset.since);
  const source = new EventSource(`/live/${page}?${query}`);
  source.addEventListener("open", () => say("on", "live"));
  source.addEventListener("error", () => say("lost", source.readyState === EventSource.CLOSED ? "log in again" : "reconnecting"));
  source.addEventListener("html", (event) => replaceHtml(event.data));
  source.addEventListener("rows", (event) => replaceRows(JSON.parse(event.data)));
  source.addEventListener("over", () => { source.close(); say("lost", "log in again"); });
  window.addEventListener("pagehide", () => source.close());
}

// On a phone the menu is wider than the screen: the page that is open stays in sight.
const here = document.querySelector("header nav [aria-current]");
if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - (here.parentElement.clientWidth - here.clientWidth) / 2;

document.querySelectorAll("[data-print]").forEach((button) => button.addEventListener("click", () => window.print()));
