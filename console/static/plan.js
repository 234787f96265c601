// The plan: what the sliders say is computed on the server as they move.
"use strict";

const form = document.querySelector("[data-plan]");
if (form) {
  const outcome = document.querySelector("[data-plan-outcome]");
  let timer = 0, asked = 0;
  form.addEventListener("input", (event) => {
    const output = form.querySelector(`output[for="${event.target.id}"]`);
    if (output) output.textContent = event.target.value;
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const mine = ++asked;
      const answer = await fetch(`/plan/forecast?${new URLSearchParams(new FormData(form))}`);
      const html = await answer.text();
      if (answer.ok && mine === asked) outcome.innerHTML = html;
    }, 120);
  });
}
