// SPDX-License-Identifier: Apache-2.0
// Runs the scripts of a page that cannon wrote with just as much of a browser's interface as they use, clicks at what
// can be clicked, and prints how many elements of each name the page has made, as JSON:
//
//   node page_dom.js PAGE.html
"use strict";
const fs = require("fs"), vm = require("vm");
const text = fs.readFileSync(process.argv[2], "utf8");
const counts = {}, texts = [], all = [];

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
    getContext: () => new Proxy({}, { get: (t, k) => t[k] ?? ((...a) => {
      if (a.some(Number.isNaN)) throw new Error(`${String(k)} of NaN`);
      counts[k] = (counts[k] ?? 0) + 1;
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
  getElementById: id => byId[id] ??= element("#" + id),
  createElementNS: (_, name) => element(name),
  getElementsByName: () => inputs,
};
const window = { addEventListener() {} };
const context = vm.createContext({ document, window, devicePixelRatio: 1, console });
for (const [, script] of text.matchAll(/<script>([\s\S]*?)<\/script>/g)) vm.runInContext(script, context);
for (const e of all.slice()) {
  if (e.onclick) e.onclick();
  if (e.onchange) e.onchange();
  if (e.oninput) e.oninput();
}
const map = byId.map;
if (map) for (let x = 5; x < 800; x += 50) for (let y = 5; y < 400; y += 20) map.onmousemove({ clientX: x, clientY: y });
console.log(JSON.stringify({ counts, texts, chosen: all.filter(e => e.classes.has("chosen")).length }));
