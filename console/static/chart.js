// Charts: what is said about the point under the pointer, or chosen with the arrow keys; and a part of it, closer.
"use strict";

function prepare(chart) {
  if (chart.dataset.ready) return;
  chart.dataset.ready = "yes";
  const data = JSON.parse(chart.dataset.points);
  const plot = chart.querySelector(".plot");
  if (!data.text.length) return;
  const cursor = plot.appendChild(document.createElement("div"));
  const tip = plot.appendChild(document.createElement("div"));
  const part = plot.appendChild(document.createElement("div"));
  part.className = "part";
  part.hidden = true;
  cursor.className = "cursor";
  tip.className = "tip";
  tip.setAttribute("role", "status");
  let chosen = data.x.length - 1;

  function show(n) {
    chosen = Math.max(0, Math.min(data.x.length - 1, n));
    const share = data.x[chosen];
    cursor.hidden = tip.hidden = false;
    cursor.style.left = `${100 * share}%`;
    tip.replaceChildren(...data.text[chosen].map((line) => {
      const one = document.createElement("p");
      one.textContent = line;
      return one;
    }));
    tip.style.left = share < 0.5 ? `calc(${100 * share}% + 10px)` : "auto";
    tip.style.right = share < 0.5 ? "auto" : `calc(${100 * (1 - share)}% + 10px)`;
  }

  function hide() {
    cursor.hidden = tip.hidden = true;
    document.dispatchEvent(new Event("tip-hidden"));
  }

  function nearest(share) {
    let low = 0, high = data.x.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (data.x[middle] < share) low = middle; else high = middle;
    }
    return share - data.x[low] < data.x[high] - share ? low : high;
  }

  // The server draws the part between two points; the address says which, so that it can be kept and sent.
  function closer(one, other) {
    const first = Math.max(0, Math.min(one, other)), last = Math.min(data.x.length - 1, Math.max(one, other));
    if (!data.keys || last - first < 2) return;
    const address = new URL(location);
    address.searchParams.set("from", data.keys[first]);
    address.searchParams.set("to", data.keys[last]);
    location.assign(address);
  }

  function whole() {
    const address = new URL(location);
    if (!address.searchParams.has("from")) return;
    address.searchParams.delete("from");
    address.searchParams.delete("to");
    location.assign(address);
  }

  function under(event) {
    const place = plot.getBoundingClientRect();
    return nearest((event.clientX - place.left) / place.width);
  }

  let began = null;
  plot.addEventListener("pointermove", (event) => {
    show(under(event));
    if (began === null) return;
    const [left, right] = [data.x[began], data.x[chosen]].sort((a, b) => a - b);
    part.hidden = false;
    part.style.left = `${100 * left}%`;
    part.style.width = `${100 * (right - left)}%`;
  });
  plot.addEventListener("pointerdown", (event) => {
    if (!data.keys || event.pointerType === "touch" || event.button) return;
    event.preventDefault();
    chart.focus({ preventScroll: true });
    plot.setPointerCapture(event.pointerId);
    began = under(event);
  });
  plot.addEventListener("pointerup", (event) => {
    if (began !== null) closer(began, under(event));
    began = null;
    part.hidden = true;
  });
  plot.addEventListener("pointerleave", hide);
  chart.addEventListener("blur", hide);
  chart.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -data.x.length, End: data.x.length };
    if (event.key === "Escape") hide();
    const quarter = Math.max(1, Math.floor(data.x.length / 4));
    if (event.key === "+") closer(chosen - quarter, chosen + quarter);
    if (event.key === "-") whole();
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(tip.hidden ? chosen : chosen + steps[event.key]);
  });
  cursor.hidden = tip.hidden = true;
}

function prepareAll() { document.querySelectorAll(".chart").forEach(prepare); }
document.addEventListener("replaced", prepareAll);
prepareAll();
