// Output of an execution, line by line; it is text, whatever it says.
import { poll } from "./live.js";

const MOST_LINES = 5000;

export function output() {
  const place = document.querySelector("[data-output]");
  if (!place) return;
  place.scrollTop = place.scrollHeight;
  if ("over" in place.dataset) return;
  poll(1, () => `${place.dataset.output}?after=${place.dataset.after}`, (page) => {
    const more = page.querySelector("[data-output]");
    const follows = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    place.dataset.after = more.dataset.after;
    if (more.childElementCount) document.querySelector("[data-output-none]")?.remove();
    place.append(...more.children);
    while (place.childElementCount > MOST_LINES) place.firstElementChild.remove();
    if (follows) place.scrollTop = place.scrollHeight;
    return !("over" in more.dataset);
  });
}
