// What the pages do in the browser: replace the parts of a page that have changed, ask before an action, and the keys that
// open pages. The server renders all HTML, with escaping; this file only puts it in its place.
"use strict";

function follow(element) {
  const stream = element.stream = new EventSource(element.dataset.live);
  const silence = document.getElementById("connection");
  stream.addEventListener("open", () => {
    silence.hidden = true;
    element.querySelector("#lines")?.replaceChildren();  // each stream begins with the newest lines
  });
  stream.addEventListener("error", () => {
    silence.hidden = false;
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => { if (element.stream === stream) again(element); }, 1000);
  });
  stream.addEventListener("parts", (event) => {
    silence.hidden = true;
    for (const [id, html] of Object.entries(JSON.parse(event.data))) put(id, html);
  });
  stream.addEventListener("lines", (event) => {
    const list = document.getElementById("lines");
    list.insertAdjacentHTML("afterbegin", JSON.parse(event.data));
    while (list.children.length > 500) list.lastElementChild.remove();
  });
  window.addEventListener("pagehide", () => stream.close());
}

// The node has refused the stream. If it sends the page elsewhere, the login has ended.
async function again(element) {
  const page = await fetch(location.href, { redirect: "manual" }).catch(() => null);
  if (page?.type === "opaqueredirect") location.reload();
  else follow(element);
}

// Replace the content of a part. A wide table stays scrolled as it was, and a focused link or table keeps the focus.
function put(id, html) {
  const place = document.getElementById(id) || added(id);
  if (!place || place.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) return;
  const focused = place.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  const scrolled = new Map([...place.querySelectorAll(".wide")].map((each) => [nameOf(each), each.scrollLeft]));
  place.innerHTML = html;
  for (const each of place.querySelectorAll(".wide")) each.scrollLeft = scrolled.get(nameOf(each)) || 0;
  if (focused) [...place.querySelectorAll("a, .wide")].find((each) => nameOf(each) === focused)?.focus({ preventScroll: true });
}

function nameOf(element) {
  return element.getAttribute("href") || element.getAttribute("aria-label");
}

// A part without an element belongs into the list of such parts, for example a new shard.
function added(id) {
  const list = [...document.querySelectorAll("[data-children]")].find((each) => id.startsWith(each.dataset.children));
  if (!list) return null;
  const place = document.createElement("div");
  place.id = id;
  place.className = "shard";
  list.append(place);
  return place;
}

const pages = { c: "", t: "topics", u: "groups", o: "operations" };
let afterG = 0;

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "g") { afterG = Date.now(); return; }
  if (event.key in pages && Date.now() - afterG < 1500) location.assign(`/console/${pages[event.key]}`);
});

// A button that stops the updates of an element, and starts them again.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-pause]");
  if (!button) return;
  const element = document.getElementById(button.dataset.pause);
  if (element.stream) { element.stream.close(); element.stream = null; } else follow(element);
  [button.textContent, button.dataset.other] = [button.dataset.other, button.textContent];
});

document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.ask || event.target.dataset.ask;
  if (question && !confirm(question)) event.preventDefault();
});

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("[data-live]").forEach(follow));
