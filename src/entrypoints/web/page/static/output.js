// Output of an execution, line by line, into `<pre data-output="ID">`; it is text, whatever it says.
import { announce, listen } from "./live.js";

const MOST_LINES = 5000;

export function output() {
  const place = document.querySelector("[data-output]");
  if (!place) return;
  const none = document.querySelector("[data-output-none]");
  let attempt = 0;
  const add = (text, kind) => {
    const follows = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    const line = document.createElement("span");
    line.className = `line ${kind}`;
    line.textContent = `${text}\n`;
    place.append(line);
    if (none) none.hidden = true;
    while (place.childElementCount > MOST_LINES) place.firstElementChild.remove();
    if (follows) place.scrollTop = place.scrollHeight;
  };
  const under = (number) => {
    if (number !== attempt) add(`attempt ${number}`, "attempt");
    attempt = number;
  };
  const listening = listen(`execution=${encodeURIComponent(place.dataset.output)}`, {
    anew: () => { place.replaceChildren(); attempt = 0; },
    line: (said) => {
      under(said.attempt);
      if (said.left_out) add(`… ${said.left_out} lines are kept no more`, "gap");
      add(said.text, said.stream);
    },
    cut: (said) => { under(said.attempt); add(`what came after ${said.as_of} was lost`, "gap"); },
    state: (said) => {
      for (const each of document.querySelectorAll("[data-state]")) {
        if (each.dataset.state !== said.state) document.dispatchEvent(new CustomEvent("moved", { detail: said }));
        each.dataset.state = said.state;
      }
      announce(`attempt ${said.attempt}: ${said.state}`);
      if (said.over) listening.end();
    },
  });
}
