// The next runs of what is being typed, and what is noted of it, as the server works them out.
const WAIT = 250;

export function preview() {
  const form = document.querySelector("form[data-preview]");
  const place = form?.querySelector("[data-preview-place]");
  if (!place) return;
  const fields = form.dataset.previewFields.split(" ");
  let waiting = 0;
  let asking = null;
  const show = async () => {
    asking?.abort();
    asking = new AbortController();
    const said = new FormData(form);
    const query = new URLSearchParams();
    for (const name of fields) if (said.get(name)) query.set(name, said.get(name));
    try {
      const found = await fetch(`${form.dataset.preview}?${query}`, { signal: asking.signal });
      if (!found.ok) return;
      const parsed = new DOMParser().parseFromString(await found.text(), "text/html");
      place.replaceChildren(...parsed.body.childNodes);
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    }
  };
  form.addEventListener("input", (event) => {
    if (!fields.includes(event.target.name)) return;
    clearTimeout(waiting);
    waiting = setTimeout(show, WAIT);
  });
}
