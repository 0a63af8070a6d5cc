// What happens while a page is open: it asks for itself again, and takes over the parts that differ.
import { setClock } from "./times.js";

const LOST_AFTER = 5000;
const FOCUSED = "a, button, summary, [tabindex]";

/** Asks for a page again and again, `every` seconds while it is seen; `take` says whether it goes on. */
export function poll(every, address, take) {
  const ask = async () => {
    let goes = true;
    if (!document.hidden) {
      try {
        const answer = await fetch(address(), { headers: { Accept: "text/html", "X-Live": "1" } });
        // Whoever is signed out meanwhile is asked to sign in.
        if (answer.redirected) location.reload();
        if (!answer.ok) throw new Error(`${answer.status}`);
        goes = take(new DOMParser().parseFromString(await answer.text(), "text/html"));
        found();
      } catch {
        lose();
      }
    }
    if (goes) setTimeout(ask, every * 1000);
    else dot(false);
  };
  setTimeout(ask, every * 1000);
}

function dot(on) {
  document.querySelector(".live-dot")?.classList.toggle("on", on);
}

let losing = 0;

/** Says that the page shows the past, unless the connection is back soon; the clock stops there. */
function lose() {
  dot(false);
  if (losing) return;
  const since = document.querySelector("[data-clock] time")?.textContent;
  losing = setTimeout(() => {
    document.documentElement.toggleAttribute("data-lost", true);
    const place = document.querySelector("[data-no-connection]");
    if (place) place.textContent = `No connection to cronhare since ${since}: what you see is from then.`;
  }, LOST_AFTER);
}

function found() {
  dot(true);
  clearTimeout(losing);
  losing = 0;
  document.documentElement.toggleAttribute("data-lost", false);
  document.querySelector("[data-no-connection]")?.replaceChildren();
}

export function announce(text) {
  const place = document.querySelector("[data-announce]");
  if (place && place.textContent !== text) place.textContent = text;
}

/** What makes a part another one; what is counted on by the page itself does not. */
const steady = (part) => part.innerHTML.replace(/(<time [^>]*data-(relative|since)[^>]*>)[^<]*/g, "$1");

/** Puts a part into a page without taking the focus from what somebody is at, or the place in a table. */
function put(place, other) {
  const at = place.contains(document.activeElement) ? document.activeElement : null;
  const href = at?.getAttribute("href");
  const number = at ? [...place.querySelectorAll(FOCUSED)].indexOf(at) : -1;
  const scrolled = [...place.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  place.replaceChildren(...other.childNodes);
  place.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = scrolled[index] ?? 0; });
  if (at && !href) place.querySelectorAll(FOCUSED)[number]?.focus({ preventScroll: true });
  if (href) place.querySelector(`[href="${CSS.escape(href)}"]`)?.focus({ preventScroll: true });
}

export function live() {
  const { live } = document.querySelector("main").dataset;
  if (!live) return;
  dot(true);
  const shown = new Map([...document.querySelectorAll("[data-part]")].map((each) => [each.dataset.part, steady(each)]));
  poll(Number(live), () => location.href, (page) => {
    setClock(page.documentElement.dataset.now);
    for (const other of page.querySelectorAll("[data-part]")) {
      const { part } = other.dataset;
      const now = steady(other);
      const place = document.querySelector(`[data-part="${CSS.escape(part)}"]`);
      if (place && shown.get(part) !== now) put(place, other);
      shown.set(part, now);
    }
    const said = document.querySelector("[data-say]")?.dataset.say;
    if (said) announce(said);
    return Boolean(page.querySelector("main").dataset.live);
  });
}
