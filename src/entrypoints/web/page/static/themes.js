// Light, dark, or as the system has it: kept in a cookie, so that a page comes in its theme at once.
const WORDS = { "": "as the system", light: "light", dark: "dark" };
const NEXT = { "": "dark", dark: "light", light: "" };

export function themes() {
  const button = document.querySelector("[data-theme-switch]");
  if (!button) return;
  const root = document.documentElement;
  const show = () => { button.querySelector("span").textContent = WORDS[root.dataset.theme ?? ""]; };
  button.addEventListener("click", () => {
    const theme = NEXT[root.dataset.theme ?? ""];
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    const age = theme ? 31536000 : 0;
    document.cookie = `cronhare_theme=${theme}; path=/; max-age=${age}; samesite=strict`;
    show();
  });
  button.hidden = false;
  show();
}
