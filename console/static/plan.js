// The plan: what the sliders say is computed on the server as they move.
"use strict";

const form = document.querySelector("[data-plan]");
if (form) {
  const outcome = document.querySelector("[data-plan-outcome]");
  let timer = 0, asked = 0;
  form.addEventListener("input", (event) => {
    const slider = event.target, output = form.querySelector(`output[for="${slider.id}"]`);
    const value = slider.dataset.values ? slider.dataset.values.split(" ")[slider.value] : slider.value;
    if (output) output.textContent = value;
    if (slider.dataset.values) slider.setAttribute("aria-valuetext", value);
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const mine = ++asked;
      const answer = await fetch(`/plan/forecast?${new URLSearchParams(new FormData(form))}`);
      const html = await answer.text();
      if (!answer.ok || mine !== asked) return;
      const typed = outcome.querySelector("#first");
      outcome.innerHTML = html;
      const first = outcome.querySelector("#first");
      if (typed && first) first.value = typed.value;
    }, 120);
  });
}
