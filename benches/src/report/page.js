"use strict";
// A box shows and hides what is of its side, within its section.
for (const box of document.querySelectorAll("input[data-side]")) {
  const section = box.closest("section");
  const show = () => {
    for (const part of section.querySelectorAll(`[data-of-side="${box.dataset.side}"]`)) {
      part.classList.toggle("off", !box.checked);
    }
  };
  box.addEventListener("change", show);
  // A browser may remember the boxes of the last visit.
  show();
}
// A pointer over a plot reads the nearest column.
const readOut = document.getElementById("read-out");
for (const plot of document.querySelectorAll("svg[data-read-out]")) {
  const { names, columns } = JSON.parse(plot.dataset.readOut);
  const cursor = plot.querySelector(".cursor");
  const section = plot.closest("section");
  const isShown = (side) =>
    side === null || section.querySelector(`input[data-side="${side}"]`)?.checked !== false;
  const leave = () => {
    readOut.hidden = true;
    cursor.classList.remove("on");
  };
  plot.addEventListener("pointerleave", leave);
  plot.addEventListener("pointermove", (event) => {
    if (columns.length === 0) return leave();
    const box = plot.getBoundingClientRect();
    const at = ((event.clientX - box.left) * plot.viewBox.baseVal.width) / box.width;
    const distance = (column) => Math.abs(column[0] - at);
    const [x, what, values] = columns.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    const lines = names
      .map(([name, side], index) => [name, side, values[index]])
      .filter(([, side, value]) => isShown(side) && value !== null && value !== undefined)
      .map(([name, , value]) => `${name}: ${value}`);
    readOut.textContent = [what, ...lines].join("\n");
    readOut.hidden = false;
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.classList.add("on");
    const left = event.clientX + 16;
    const room = window.innerWidth - readOut.offsetWidth - 8;
    readOut.style.left = `${left < room ? left : Math.max(8, event.clientX - readOut.offsetWidth - 16)}px`;
    readOut.style.top = `${Math.max(8, event.clientY - readOut.offsetHeight - 12)}px`;
  });
}
