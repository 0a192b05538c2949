// Put at the end of a page by its test: tells on the document what became of it.
{
  const root = document.documentElement;
  const plots = [...document.querySelectorAll("svg.plot")].map((plot) => {
    const { width, height } = plot.getBoundingClientRect();
    const curves = plot.querySelectorAll("path.curve:not(.beyond)").length;
    return [plot.id, Math.round(width), Math.round(height), curves].join(" ");
  });
  root.dataset.plots = plots.join("|");
  root.dataset.loaded = performance.getEntriesByType("resource").length;
  root.dataset.wider = root.scrollWidth > window.innerWidth ? "yes" : "no";
  // A pointer in the middle of a plot.
  const plot = document.getElementById("c0-percentiles");
  const box = plot.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + 90 };
  const read = () => {
    plot.dispatchEvent(new PointerEvent("pointermove", at));
    return document.getElementById("read-out").textContent.replaceAll("\n", "|");
  };
  root.dataset.read = read();
  // Without the second side.
  document.querySelector("#c0 input[data-side='1']").click();
  const shown = [...document.querySelectorAll("#c0 [data-of-side]")];
  const hidden = shown.filter((part) => getComputedStyle(part).display === "none");
  root.dataset.hidden = hidden.map((part) => part.dataset.ofSide).join(" ");
  root.dataset.others = document.querySelectorAll("section:not(#c0) .off").length;
  root.dataset.readOne = read();
  root.dataset.done = "yes";
}
