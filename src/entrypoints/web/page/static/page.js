// Everything works without this file, except what is live.
import { keys } from "./keys.js";
import { live } from "./live.js";
import { output } from "./output.js";
import { preview } from "./preview.js";
import { themes } from "./themes.js";
import { times } from "./times.js";
import { zones } from "./zones.js";

for (const begin of [themes, zones, times, keys, live, output, preview]) begin();

// A calendar that is wider than the screen opens at the present hour.
const present = document.querySelector(".calendar [data-present]");
if (present) {
  const scroll = present.closest(".scroll");
  scroll.scrollLeft = present.offsetLeft - scroll.clientWidth / 2;
}
