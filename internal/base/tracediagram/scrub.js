"use strict";
(() => {
  const moments = JSON.parse(document.getElementById("moments").textContent);
  const slider = document.getElementById("moment"), shown = document.getElementById("shown"), now = document.getElementById("now");
  const things = [...document.querySelectorAll("[data-b]")].map(e => ({e, begins: +e.dataset.b, ends: +e.dataset.e, told: e.tagName === "LI"}));
  const view = document.querySelector(".diagram .scroll");
  const go = () => {
    const i = +slider.value, all = i >= moments.length;
    shown.textContent = all ? "all" : moments[i].text;
    for (const t of things) {
      t.e.classList.toggle("later", !all && t.begins > i);
      t.e.classList.toggle("flight", !all && t.begins <= i && i < t.ends);
      t.e.classList.toggle("current", !all && t.told && t.begins === i);
    }
    if (all) { now.setAttribute("hidden", ""); return; }
    now.removeAttribute("hidden");
    now.setAttribute("x1", moments[i].x);
    now.setAttribute("x2", moments[i].x);
    if (moments[i].x < view.scrollLeft + 40 || moments[i].x > view.scrollLeft + view.clientWidth - 40) view.scrollLeft = moments[i].x - view.clientWidth / 2;
  };
  slider.addEventListener("input", go);
  go();
})();
