// Everything works without this file, except what is live.
import { fresh } from "./fresh.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { output } from "./output.js";
import { preview } from "./preview.js";
import { themes } from "./themes.js";
import { times } from "./times.js";

for (const begin of [themes, times, keys, live, output, preview, fresh]) begin();

// On a narrow screen the views stand in a line that scrolls.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
