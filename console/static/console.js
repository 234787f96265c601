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

let waiting = null;

function busy(place) {
  const typing = place.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
  return typing || place.querySelector(".tip:not([hidden])");
}

function replaceHtml(html) {
  const place = document.querySelector("[data-live-html]");
  if (!place || !html) return;
  // What somebody reads under the pointer, or types, stays until they are done.
  waiting = busy(place) ? html : null;
  if (waiting) return;
  // What had the focus keeps it: a keyboard does not start at the top again.
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const all = "a, button, summary, [tabindex]";
  const number = focused ? [...place.querySelectorAll(all)].indexOf(focused) : -1;
  const href = focused && focused.getAttribute("href");
  const open = [...place.querySelectorAll("details")].map((one) => one.open);
  place.innerHTML = html;
  place.querySelectorAll("details").forEach((one, n) => { if (open[n]) one.open = true; });
  if (focused) {
    const again = href ? place.querySelector(`[href="${CSS.escape(href)}"]`) : place.querySelectorAll(all)[number];
    if (again) again.focus({ preventScroll: true });
  }
  document.dispatchEvent(new Event("replaced"));
}

function replaceWaiting() { if (waiting) replaceHtml(waiting); }
document.addEventListener("tip-hidden", replaceWaiting);
document.addEventListener("focusout", () => setTimeout(replaceWaiting));

function replaceRows(rows) {
  const place = document.querySelector("[data-live-rows]");
  for (const [name, html] of Object.entries(rows)) {
    const row = place.querySelector(`[data-device="${CSS.escape(name)}"]`);
    if (row && row.contains(document.activeElement)) continue;
    if (!html) { if (row) row.remove(); continue; }
    const made = document.createElement("tbody");
    made.innerHTML = html;
    const fresh = made.querySelector("tr");
    const badge = (one) => one.querySelector(".badge").textContent;
    if (!row || badge(fresh) !== badge(row)) fresh.classList.add("fresh");
    if (row) row.replaceWith(fresh); else place.append(fresh);
    place.querySelectorAll(".none").forEach((one) => one.closest("tr").remove());
  }
}

function replaceChips(html) {
  const place = document.querySelector("[data-live-chips]");
  if (!place.contains(document.activeElement)) place.innerHTML = html;
}

if (page && window.EventSource) {
  const query = new URLSearchParams(location.search);
  query.set("since", document.body.dataset.since);
  const source = new EventSource(`/live/${page}?${query}`);
  source.addEventListener("open", () => say("on", "live"));
  source.addEventListener("error", () => say("lost", source.readyState === EventSource.CLOSED ? "log in again" : "reconnecting"));
  source.addEventListener("html", (event) => replaceHtml(event.data));
  source.addEventListener("rows", (event) => replaceRows(JSON.parse(event.data)));
  source.addEventListener("chips", (event) => replaceChips(event.data));
  source.addEventListener("over", () => { source.close(); say("lost", "log in again"); });
  window.addEventListener("pagehide", () => source.close());
}

// On a phone the menu is wider than the screen: the page that is open stays in sight.
const here = document.querySelector("header nav [aria-current]");
if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - (here.parentElement.clientWidth - here.clientWidth) / 2;

document.querySelectorAll("[data-print]").forEach((button) => button.addEventListener("click", () => window.print()));
