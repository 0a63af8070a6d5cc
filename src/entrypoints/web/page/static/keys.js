// `g` and a letter leads to a view, `/` to the search, `?` to the list of keys.
const KEPT = "cronhare.keys";
const FIELDS = "input, select, textarea, [contenteditable]";

export function keys() {
  choice();
  let gone = 0;
  document.addEventListener("keydown", (event) => {
    if (localStorage.getItem(KEPT) === "off") return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest(FIELDS)) return;
    const follows = Date.now() - gone < 1500;
    gone = event.key === "g" ? Date.now() : 0;
    const way = follows && document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (way) {
      event.preventDefault();
      way.click();
    } else if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (!search) return;
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "?") {
      location.assign("/ui/keys");
    }
  });
}

function choice() {
  const place = document.querySelector("[data-keys-switch]");
  if (!place) return;
  const box = place.querySelector("input");
  box.checked = localStorage.getItem(KEPT) !== "off";
  box.addEventListener("change", () => localStorage.setItem(KEPT, box.checked ? "on" : "off"));
  place.hidden = false;
}
