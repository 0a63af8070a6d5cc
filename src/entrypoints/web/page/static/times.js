// Counts relative times on, by the ledger's clock, in the words of times.py.
const UNITS = [[86400, "d", 3600, "h", 7], [3600, "h", 60, "min", 24], [60, "min", 1, "s", 10]];

function span(seconds) {
  const whole = Math.floor(seconds);
  for (const [size, unit, small, smaller, most] of UNITS) {
    if (whole < size) continue;
    const many = Math.floor(whole / size);
    const less = many < most ? Math.floor((whole % size) / small) : 0;
    return less ? `${many} ${unit} ${less} ${smaller}` : `${many} ${unit}`;
  }
  return `${whole} s`;
}

function relative(away) {
  if (away > -1 && away < 1) return "now";
  return away > 0 ? `in ${span(away)}` : `${span(-away)} ago`;
}

let ahead = 0;

export function setClock(iso) {
  ahead = Date.parse(iso) - Date.now();
}

function count() {
  if (document.documentElement.hasAttribute("data-lost")) return;
  const now = Date.now() + ahead;
  for (const each of document.querySelectorAll("time[data-relative]")) {
    const text = relative((Date.parse(each.dateTime) - now) / 1000);
    if (each.textContent !== text) each.textContent = text;
  }
  for (const each of document.querySelectorAll("time[data-since]")) {
    const text = span(Math.max(0, (now - Date.parse(each.dateTime)) / 1000));
    if (each.textContent !== text) each.textContent = text;
  }
  const clock = document.querySelector("[data-clock] time");
  if (clock) clock.textContent = new Date(now).toLocaleTimeString("en-GB", { timeZone: document.documentElement.dataset.zone });
}

export function times() {
  const { now } = document.documentElement.dataset;
  if (!now) return;
  setClock(now);
  const clock = document.querySelector("[data-clock]");
  if (clock) clock.hidden = false;
  count();
  setInterval(count, 1000);
}
