// SPDX-License-Identifier: Apache-2.0
// Runs the scripts of a page that cannon wrote with just as much of a browser's interface as they use, clicks at what
// can be clicked, moves over the map, zooms, drags and searches, and prints what the page has made and shown, as JSON:
//
//   node page_dom.js PAGE.html [SEARCH]
"use strict";
const fs = require("fs"), vm = require("vm");
const text = fs.readFileSync(process.argv[2], "utf8");
const counts = {}, texts = [], all = [], labels = [];

function element(name) {
  counts[name] = (counts[name] ?? 0) + 1;
  const classes = new Set();
  const e = {
    name, children: [], attributes: {}, width: 0, height: 0, clientWidth: 800, clientHeight: 400, value: "100",
    appendChild(c) { this.children.push(c); return c; },
    setAttribute(k, v) { if (`${v}`.includes("NaN")) throw new Error(`${k} of ${name} is ${v}`); this.attributes[k] = v; },
    removeAttribute(k) { delete this.attributes[k]; },
    insertRow() { return this.appendChild(element("tr")); },
    insertCell() { return this.appendChild(element("td")); },
    classList: { toggle: (c, on) => { if (on) classes.add(c); else classes.delete(c); } },
    classes,
    getBoundingClientRect: () => ({ left: 0, top: 0 }),
    setPointerCapture() {},
    getContext: () => new Proxy({}, { get: (t, k) => t[k] ?? ((...a) => {
      if (a.some(Number.isNaN)) throw new Error(`${String(k)} of NaN`);
      counts[k] = (counts[k] ?? 0) + 1;
      if (k === "fillText") labels.push(a[0]);
    }), set: (t, k, v) => { t[k] = v; return true; } }),
    set textContent(t) { texts.push(String(t)); this.text = t; },
    get textContent() { return this.text; },
  };
  all.push(e);
  return e;
}

const byId = {}, inputs = [element("input"), element("input")];
inputs[0].value = "after";
inputs[1].value = "before";
const document = {
  documentElement: element("html"),
  getElementById: id => byId[id] ??= element("#" + id),
  createElementNS: (_, name) => element(name),
  getElementsByName: () => inputs,
};
const window = { addEventListener() {} };
const context = vm.createContext({
  document, window, devicePixelRatio: 1, console, matchMedia: () => ({ matches: false, addEventListener() {} }),
  getComputedStyle: () => ({ getPropertyValue: () => " #000" }),
});
for (const [, script] of text.matchAll(/<script>([\s\S]*?)<\/script>/g)) vm.runInContext(script, context);
for (const e of all.slice()) {
  if (e.onclick) e.onclick();
  if (e.onchange) e.onchange();
  if (e.oninput) e.oninput();
}
const map = byId.map, tip = byId.tip, mouse = (x, y, more = {}) => ({ pointerId: 1, clientX: x, clientY: y, ...more });
if (!map) { /* a page without a map of addresses */
  console.log(JSON.stringify({ counts, texts }));
  process.exit(0);
}
const axis = () => { /* the labels that a new drawing writes below the curves */
  labels.length = 0;
  map.ondblclick();
  return labels.slice();
};
const tips = [];
for (let x = 80; x < 790; x += 50) for (let y = 10; y < 375; y += 20) {
  map.onpointermove(mouse(x, y));
  tips.push(tip.text);
}
const shown = axis();
const wheel = { deltaY: -500, preventDefault() {} };
labels.length = 0;
map.onwheel(mouse(400, 200, wheel));
const zoomed = labels.slice();
map.onwheel(mouse(400, 200, { ...wheel, deltaY: 500 }));
labels.length = 0;
map.onpointerdown(mouse(400, 200));
map.onpointermove(mouse(300, 150));
map.onpointerup(mouse(300, 150));
const moved = labels.slice();
map.onpointerdown(mouse(200, 100, { shiftKey: true }));
map.onpointermove(mouse(300, 200));
map.onpointerup(mouse(300, 200));
map.onpointerdown(mouse(200, 100));
map.onpointerdown(mouse(300, 100, { pointerId: 2 }));
map.onpointermove(mouse(500, 100, { pointerId: 2 }));
byId.search.value = process.argv[3] ?? ">0";
byId.search.oninput();
console.log(JSON.stringify({ counts, texts, tips, shown, zoomed, moved, title: document.title, found: byId.count.text,
                             chosen: all.filter(e => e.classes.has("chosen")).length }));
