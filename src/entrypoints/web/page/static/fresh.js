// The parts of a page that tell of its execution: fetched anew when that moves on.
export function fresh() {
  const places = () => document.querySelectorAll("[data-fresh]");
  if (!places().length) return;
  const look = async () => {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const place of places()) {
      const other = found.querySelector(`[data-fresh="${CSS.escape(place.dataset.fresh)}"]`);
      if (other && other.innerHTML !== place.innerHTML) place.replaceChildren(...other.childNodes);
    }
  };
  let soon = 0;
  document.addEventListener("moved", () => {
    clearTimeout(soon);
    soon = setTimeout(() => look().catch(() => {}), 300);
  });
}
