// Charts: what is said about the point under the pointer, or chosen with the arrow keys.
"use strict";

function prepare(chart) {
  if (chart.dataset.ready) return;
  chart.dataset.ready = "yes";
  const data = JSON.parse(chart.dataset.points);
  const plot = chart.querySelector(".plot");
  if (!data.text.length) return;
  const cursor = plot.appendChild(document.createElement("div"));
  const tip = plot.appendChild(document.createElement("div"));
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

  plot.addEventListener("pointermove", (event) => {
    const place = plot.getBoundingClientRect();
    show(nearest((event.clientX - place.left) / place.width));
  });
  plot.addEventListener("pointerleave", hide);
  chart.addEventListener("blur", hide);
  chart.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -data.x.length, End: data.x.length };
    if (event.key === "Escape") hide();
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(tip.hidden ? chosen : chosen + steps[event.key]);
  });
  cursor.hidden = tip.hidden = true;
}

function prepareAll() { document.querySelectorAll(".chart").forEach(prepare); }
document.addEventListener("replaced", prepareAll);
prepareAll();
