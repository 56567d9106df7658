// The search and the button for the colours. SEARCH_INDEX has rows [name, module, kind, address, words].
"use strict";

const input = document.querySelector("header input");
const list = document.querySelector(".results");
const root = document.body.dataset.root;
let chosen = -1;

// How well a row answers what is asked; 0 if it does not.
function score([name, module, kind, , words], asked) {
  const whole = (module ? `${module}.${name}` : name).toLowerCase();
  const short = name.toLowerCase();
  let total = 0;
  for (const word of asked) {
    if (short === word || whole === word) total += 100;
    else if (short.startsWith(word)) total += 60;
    else if (short.includes(word)) total += 40;
    else if (whole.includes(word)) total += 25;
    else if (kind.startsWith(word)) total += 10;
    else if (words.toLowerCase().includes(word)) total += 8;
    else return 0;
  }
  return total - name.length / 100;
}

function found(text) {
  const asked = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (asked.length === 0) return [];
  return SEARCH_INDEX.map((row) => [score(row, asked), row])
    .filter(([points]) => points > 0)
    .sort((a, b) => b[0] - a[0])
    .slice(0, 30)
    .map(([, row]) => row);
}

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function show() {
  const rows = found(input.value);
  list.replaceChildren(
    ...rows.map(([name, module, kind, address, words]) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = `${root}modules/${address}`;
      link.append(element("b", module ? `${module}.${name}` : name), ` ${kind}`, element("small", words));
      item.append(link);
      return item;
    }),
  );
  list.hidden = input.value.trim() === "";
  if (rows.length === 0) list.append(element("li", "nothing found"));
  choose(rows.length ? 0 : -1);
}

function choose(number) {
  const links = list.querySelectorAll("a");
  chosen = links.length ? (number + links.length) % links.length : -1;
  links.forEach((link, i) => link.parentElement.classList.toggle("chosen", i === chosen));
  links[chosen]?.scrollIntoView({ block: "nearest" });
}

function close() {
  list.hidden = true;
}

input.addEventListener("input", show);
input.addEventListener("focus", show);
input.form.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelectorAll("a")[chosen]?.click();
});
input.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen - 1);
  else if (event.key === "Escape") input.blur(), close();
  else return;
  event.preventDefault();
});
list.addEventListener("click", close);
document.addEventListener("click", (event) => {
  if (!list.contains(event.target) && event.target !== input) close();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || document.activeElement === input) return;
  event.preventDefault();
  input.focus();
  input.select();
});

document.querySelector(".theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("theme", next);
  } catch {
    // a browser that keeps nothing for files
  }
});
