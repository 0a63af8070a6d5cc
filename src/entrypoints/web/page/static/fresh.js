// Parts of a page that are fetched anew: when its execution moves on, or every so many seconds.
export function fresh() {
  const places = () => document.querySelectorAll("[data-fresh]");
  if (!places().length) return;
  const look = async () => {
    if (document.hidden) return;
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const place of places()) {
      const other = found.querySelector(`[data-fresh="${CSS.escape(place.dataset.fresh)}"]`);
      const busy = place.contains(document.activeElement);
      if (other && !busy && other.innerHTML !== place.innerHTML) place.replaceChildren(...other.childNodes);
    }
  };
  let soon = 0;
  document.addEventListener("moved", () => {
    clearTimeout(soon);
    soon = setTimeout(() => look().catch(() => {}), 300);
  });
  const every = document.querySelector("[data-every]")?.dataset.every;
  if (!every) return;
  const watch = setInterval(() => {
    if (document.querySelector("[data-every]")) look().catch(() => {});
    else clearInterval(watch);
  }, every * 1000);
}
