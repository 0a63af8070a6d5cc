// The zone in which times are shown: kept in a cookie, so that a page comes in it at once.
export function zones() {
  const place = document.querySelector("[data-zone-switch]");
  const choice = place?.querySelector("select");
  if (!choice) return;
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (![...choice.options].some((each) => each.value === here)) choice.add(new Option(here, here));
  choice.addEventListener("change", () => {
    document.cookie = `cronhare_zone=${choice.value}; path=/; max-age=31536000; samesite=strict`;
    location.reload();
  });
  place.hidden = false;
}
