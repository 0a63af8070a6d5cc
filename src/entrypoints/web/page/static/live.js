// What happens while a page is open. One connection; a page that is hidden gives it up.
import { setClock } from "./times.js";

const AGAIN = 10000;
const LOST_AFTER = 5000;
const FOCUSED = "a, button, summary, [tabindex]";

/** Listens to `/ui/live?…`; *handlers* by the names of events get what JSON said. */
export function listen(query, handlers) {
  let source = null;
  let last = "";
  const open = () => {
    source = new EventSource(`/ui/live?${query}`);
    source.onopen = () => { dot(true); found(); };
    source.onerror = () => {
      dot(false);
      lose();
      // A refusal is for good, unless it is asked again.
      if (source?.readyState === EventSource.CLOSED) setTimeout(begin, AGAIN);
    };
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => {
        last = event.lastEventId;
        handle(JSON.parse(event.data));
      });
    }
  };
  const begin = () => { if (!document.hidden && (!source || source.readyState === EventSource.CLOSED)) open(); };
  const end = () => { source?.close(); source = null; dot(false); found(); };
  document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));
  addEventListener("pagehide", end);
  begin();
  return { end: () => { end(); handlers = {}; } };
}

function dot(on) {
  document.querySelector("[data-live]")?.classList.toggle("on", on);
}

let losing = 0;

/** Says that the page shows the past, unless the connection is back soon; the clock stops there. */
function lose() {
  if (losing) return;
  const since = document.querySelector("[data-clock] time")?.textContent;
  losing = setTimeout(() => {
    document.documentElement.toggleAttribute("data-lost", true);
    const place = document.querySelector("[data-no-connection]");
    if (place) place.textContent = `No connection to cronhare since ${since} UTC: what you see is from then.`;
  }, LOST_AFTER);
}

function found() {
  clearTimeout(losing);
  losing = 0;
  document.documentElement.toggleAttribute("data-lost", false);
  document.querySelector("[data-no-connection]")?.replaceChildren();
}

export function announce(text) {
  const place = document.querySelector("[data-announce]");
  if (place && place.textContent !== text) place.textContent = text;
}

/** Puts parts into a page without taking the focus from what somebody is at. */
function put(place, html) {
  const at = place.contains(document.activeElement) ? document.activeElement : null;
  const href = at?.getAttribute("href");
  const number = at ? [...place.querySelectorAll(FOCUSED)].indexOf(at) : -1;
  const parsed = new DOMParser().parseFromString(html, "text/html");
  place.replaceChildren(...parsed.body.childNodes);
  if (at && !href) place.querySelectorAll(FOCUSED)[number]?.focus({ preventScroll: true });
  if (href) place.querySelector(`[href="${CSS.escape(href)}"]`)?.focus({ preventScroll: true });
}

export function live() {
  const root = document.querySelector("[data-feed]");
  if (!root) return;
  listen(`feed=${encodeURIComponent(root.dataset.feed)}`, {
    now: ({ now, parts }) => {
      setClock(now);
      for (const [part, html] of Object.entries(parts)) {
        const place = root.querySelector(`[data-part="${CSS.escape(part)}"]`);
        if (place) put(place, html);
      }
      const said = root.querySelector("[data-say]")?.dataset.say;
      if (said) announce(said);
    },
  });
}
