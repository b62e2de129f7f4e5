"use strict";
/* What cannon's pages share: numbers, colours, and a map of addresses over time. */
const $ = id => document.getElementById(id);

function inUnits(n, numberText) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
  return `${unit ? numberText(n) : n} ${units[unit]}`;
}
const bytesText = bytes => inUnits(bytes, n => n.toPrecision(3));
/* Ticks are round numbers; "13.3 MiB" at 13.25 MiB would be wrong. */
const tickText = bytes => inUnits(bytes, n => Number(n.toPrecision(9)));

/* Colour of a block by its size: from violet (512 B or less) to red (512 MiB or more). */
function colour(bytes) {
  const share = Math.min(1, Math.max(0, (Math.log2(bytes) - 9) / 20));
  return `hsl(${270 - 270 * share} 70% ${45 + 15 * share}%)`;
}

/* The colours of the canvases: those of the page's style, which follows the system's setting. */
const darkness = matchMedia("(prefers-color-scheme: dark)");
function palette() {
  const style = getComputedStyle(document.documentElement), of = name => style.getPropertyValue(`--${name}`).trim();
  return { ink: of("ink"), faint: of("rule"), filled: of("filled"), line: of("line"), dimmed: of("rule") };
}

/* Gives a canvas the resolution of the screen, with CSS pixels as units. */
function surface(canvas) {
  canvas.width = Math.round(canvas.clientWidth * devicePixelRatio);
  canvas.height = Math.round(canvas.clientHeight * devicePixelRatio);
  const context = canvas.getContext("2d");
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  context.font = "11px system-ui, sans-serif";
  return context;
}

/* At most n round values between low and high: powers of two apart for bytes, else 1, 2 and 5 times powers of ten. */
function ticks(low, high, n, inBytes) {
  const least = (high - low) / Math.max(1, n);
  let step = 2 ** Math.ceil(Math.log2(Math.max(least, 1)));
  if (!inBytes) {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    step = power * ([1, 2, 5].find(f => f * power >= least) ?? 10);
  }
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

/* What a search asks for: ">1M", "<=4096", "2M" (a size) or any other text, which a block's words must contain. Returns
   a function that says whether a block matches; null for an empty search. */
function searchOf(text, bytes, words) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const size = wanted.match(/^(<=|>=|<|>|=)?\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?$/);
  if (!size) return b => words(b).toLowerCase().includes(wanted);
  const limit = parseFloat(size[2]) * 1024 ** " kmgt".indexOf(size[3] || " ");
  const holds = { "<": n => n < limit, "<=": n => n <= limit, ">": n => n > limit, ">=": n => n >= limit };
  const test = holds[size[1]] ?? (n => n === limit);
  return b => test(bytes[b]);
}

/* Appends an element of HTML with an id or a class, and a text. */
function append(parent, name, attributes, text = "") {
  const e = parent.appendChild(document.createElement(name));
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(text);
  return e;
}

/* Appends a legend: the colours of sizes, marks with their words ({ live: "in use" }, by the mark's class in the
   style), and a search field. Returns { search, count }: the input, and where to say how many blocks match. */
function legend(place, marks, searchedFor) {
  const line = append(place, "div", { class: "legend" }), sizes = append(line, "span", {}, "size 512 B ");
  append(sizes, "span", { class: "sizes" });
  sizes.append(" 512 MiB");
  for (const [mark, text] of Object.entries(marks)) {
    const entry = append(line, "span", {});
    append(entry, "span", { class: mark });
    entry.append(` ${text}`);
  }
  const search = append(append(line, "label", {}, "Search "), "input", {
    id: "search", type: "search", size: 28, placeholder: `size (>1M, 4096) or ${searchedFor}` });
  return { search, count: append(line, "span", { id: "count" }) };
}

/* Within its margins a canvas has axes. */
const MARGIN = { left: 74, right: 8, top: 6, bottom: 22 };
const inner = canvas => ({ width: Math.max(1, canvas.clientWidth - MARGIN.left - MARGIN.right),
                           height: Math.max(1, canvas.clientHeight - MARGIN.top - MARGIN.bottom) });

/* The axis of bytes, from low to high, with lines across the canvas. */
function sizeAxis(context, canvas, low, high) {
  const { width, height } = inner(canvas), colours = palette();
  context.fillStyle = colours.ink;
  context.strokeStyle = colours.faint;
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const at of ticks(low, high, height / 30, true)) {
    const y = MARGIN.top + height - (at - low) / (high - low) * height;
    context.strokeRect(MARGIN.left, y, width, 0);
    context.fillText(tickText(at), MARGIN.left - 6, y);
  }
}

/* The axis of the time from view.from to view.to, and a frame around all. words: { unit, text(time) }, or null: only
   the lines, since the canvas below has the words. */
function timeAxis(context, canvas, view, words) {
  const { width, height } = inner(canvas), colours = palette();
  context.fillStyle = colours.ink;
  context.strokeStyle = colours.faint;
  context.lineWidth = 1;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const at of ticks(view.from, view.to, width / 70, false)) {
    const x = MARGIN.left + (at - view.from) / (view.to - view.from) * width;
    context.strokeRect(x, MARGIN.top, 0, height);
    if (!words) continue;
    const text = words.text(at), isCut = x + context.measureText(text).width / 2 > canvas.clientWidth;
    if (!isCut) context.fillText(text, x, MARGIN.top + height + 5);
  }
  context.strokeStyle = colours.ink;
  context.strokeRect(MARGIN.left, MARGIN.top, width, height);
  if (!words) return;
  context.textAlign = "right";
  context.fillText(words.unit, MARGIN.left - 24, MARGIN.top + height + 5);
}

/* Nothing is drawn beyond the axes until the returned function is called. */
function clipped(context, canvas) {
  const { width, height } = inner(canvas);
  context.save();
  context.beginPath();
  context.rect(MARGIN.left, MARGIN.top, width, height);
  context.clip();
  return () => context.restore();
}

/* What the wheel, the mouse and fingers do on a canvas, with points in its pixels:
     tell(x, y)                   the cursor is there
     zoom(x, y, factor, shifted)  what is there stays there; shifted: with Shift
     move(dx, dy)
     choose(x0, y0, x1, y1, done) Shift and dragging, until it is done
     click(x, y)                  without dragging; may be missing
     reset()                      a double click */
function gestures(canvas, on) {
  const pointers = new Map();
  let start = null, boxed = false;
  const pixel = mouse => {
    const at = canvas.getBoundingClientRect();
    return [mouse.clientX - at.left, mouse.clientY - at.top];
  };

  /* One of two fingers has moved to (x, y): what was in the middle between them stays there. */
  function pinch(pointer, x, y) {
    const [other] = [...pointers].filter(([id]) => id !== pointer).map(([, at]) => at), before = pointers.get(pointer);
    const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
    const factor = distance(before, other) / Math.max(1, distance([x, y], other));
    on.zoom((before[0] + other[0]) / 2, (before[1] + other[1]) / 2, factor, false);
    on.move((x - before[0]) / 2, (y - before[1]) / 2);
  }

  canvas.onpointerdown = pointer => {
    const [x, y] = pixel(pointer);
    pointers.set(pointer.pointerId, [x, y]);
    canvas.setPointerCapture(pointer.pointerId);
    start = pointers.size === 1 ? [x, y] : null;
    boxed = pointer.shiftKey;
    if (start) on.tell(x, y); /* for fingers, which do not move before they press */
  };
  canvas.onpointermove = pointer => {
    const [x, y] = pixel(pointer), last = pointers.get(pointer.pointerId);
    if (!last) return on.tell(x, y);
    if (pointers.size === 2) pinch(pointer.pointerId, x, y);
    else if (boxed && start) on.choose(...start, x, y, false);
    else on.move(x - last[0], y - last[1]);
    pointers.set(pointer.pointerId, [x, y]);
  };
  canvas.onpointerup = canvas.onpointercancel = pointer => {
    const [x, y] = pixel(pointer), from = start;
    pointers.delete(pointer.pointerId);
    start = null;
    if (!from) return;
    if (boxed) on.choose(...from, x, y, true);
    else if (pointer.type === "pointerup" && Math.hypot(x - from[0], y - from[1]) < 4) on.click?.(x, y);
  };
  canvas.onwheel = wheel => {
    wheel.preventDefault();
    const delta = wheel.deltaY || wheel.deltaX; /* with Shift, browsers scroll sideways */
    on.zoom(...pixel(wheel), Math.exp(Math.sign(delta) * Math.min(100, Math.abs(delta)) * 0.003), wheel.shiftKey);
  };
  canvas.ondblclick = on.reset;
}

const GESTURES = "The wheel zooms (with Shift along the time), dragging moves, Shift and dragging zooms to a " +
  "rectangle, a double click shows all. On a touch screen two fingers zoom and one moves.";

/* Draws blocks as rectangles (addresses upwards, time to the right) into a canvas, and below it a filled curve and a
   line over the same time, all with axes. Makes the canvases in `place`, with a legend, a search field and a line of
   text that has the time, the curves' values and the block under the cursor. What a search does not find is dimmed.
     names   of both curves and of what can be searched for: { filled, line, searchedFor }
     data    last (of the times), unit (their name), start[], end[], bytes[] of the blocks
     picture()   what is shown now: place[] (of each block in the picture; -1: none), high (end of the places),
                 filled[], line[] and most (the largest value of the curves)
     words(b)    a block in words
     more(b)     if there is more: lines of text, which are searched, and shown below for the block under the cursor
   Returns { reset, find }: reset shows all, and is to be called at first and when the picture is another; find(text)
   searches for a text. */
function addressMap(place, names, data, picture, words, more) {
  let view, box = null, matches = null, cursor = null;

  append(place, "p", {}, GESTURES);
  const { search, count } = legend(place, { live: names.filled, line: names.line }, names.searchedFor);
  const tip = append(place, "div", { id: "tip" });
  const map = append(place, "canvas", { id: "map" }), curves = append(place, "canvas", { id: "curves" });
  const below = more && append(place, "pre", { id: "more" });

  const xOf = (time, width) => MARGIN.left + (time - view.from) / (view.to - view.from) * width;
  const yOf = (value, low, high, height) => MARGIN.top + height - (value - low) / (high - low) * height;

  function drawMap() {
    const context = surface(map), { place } = picture(), { width, height } = inner(map), colours = palette();
    sizeAxis(context, map, view.low, view.high);
    timeAxis(context, map, view, null);
    const unclip = clipped(context, map);
    for (let b = 0; b < place.length; b++) {
      if (place[b] < 0 || data.end[b] < view.from || data.start[b] > view.to) continue;
      const x = xOf(data.start[b], width), top = yOf(place[b] + data.bytes[b], view.low, view.high, height);
      const bottom = yOf(place[b], view.low, view.high, height);
      if (top > map.clientHeight || bottom < 0) continue;
      context.fillStyle = matches && !matches[b] ? colours.dimmed : colour(data.bytes[b]);
      context.fillRect(x, top, Math.max(xOf(data.end[b], width) - x, 0.7), Math.max(bottom - top, 0.7));
    }
    if (box) {
      context.strokeStyle = colours.ink;
      context.strokeRect(box.x0, box.y0, box.x1 - box.x0, box.y1 - box.y0);
    }
    if (cursor !== null) drawCursor(context, map);
    unclip();
  }

  function drawCursor(context, canvas) {
    const { width, height } = inner(canvas);
    context.strokeStyle = palette().ink;
    context.strokeRect(xOf(cursor, width), MARGIN.top, 0, height);
  }

  function drawCurves() {
    const context = surface(curves), { filled, line, most } = picture(), { width, height } = inner(curves);
    const n = filled.length, x = i => xOf(i * data.last / n, width), y = bytes => yOf(bytes, 0, most, height);
    sizeAxis(context, curves, 0, most);
    timeAxis(context, curves, view, { unit: data.unit, text: at => `${at}` });
    const unclip = clipped(context, curves);
    context.beginPath();
    context.moveTo(x(0), y(0));
    filled.forEach((bytes, i) => { context.lineTo(x(i), y(bytes)); context.lineTo(x(i + 1), y(bytes)); });
    context.lineTo(x(n), y(0));
    context.fillStyle = palette().filled;
    context.fill();
    context.beginPath();
    line.forEach((bytes, i) => { context.lineTo(x(i), y(bytes)); context.lineTo(x(i + 1), y(bytes)); });
    context.strokeStyle = palette().line;
    context.lineWidth = 1.5;
    context.stroke();
    if (cursor !== null) drawCursor(context, curves);
    unclip();
  }

  function draw() {
    drawMap();
    drawCurves();
  }

  function reset() {
    view = { from: 0, to: Math.max(1, data.last), low: 0, high: picture().high };
    draw();
  }

  const timeAt = x => view.from + (x - MARGIN.left) / inner(map).width * (view.to - view.from);
  const heightAt = y => view.high - (y - MARGIN.top) / inner(map).height * (view.high - view.low);

  /* Keeps what is under (x, y) where it is. Not to less than two units on an axis, and not far outside of all. */
  function zoom(x, y, factor, timeOnly) {
    const time = timeAt(x), at = heightAt(y), high = picture().high;
    const spans = [(view.to - view.from) * factor, (view.high - view.low) * factor];
    if (factor < 1 && (spans[0] < 2 || spans[1] < 2)) return;
    if (factor > 1 && spans[0] > 2 * data.last && (timeOnly || spans[1] > 2 * high)) return;
    view.from = time - (time - view.from) * factor;
    view.to = view.from + spans[0];
    if (!timeOnly) {
      view.low = at - (at - view.low) * factor;
      view.high = view.low + spans[1];
    }
    draw();
  }

  function move(dx, dy) {
    const { width, height } = inner(map), time = dx / width * (view.to - view.from);
    const bytes = dy / height * (view.high - view.low);
    view = { from: view.from - time, to: view.to - time, low: view.low + bytes, high: view.high + bytes };
    draw();
  }

  function tell(x, y) {
    const time = timeAt(x), at = heightAt(y), { place, filled, line } = picture();
    if (time < 0 || time > data.last) return;
    const b = place.findIndex((p, i) => p >= 0 && p <= at && at < p + data.bytes[i] && data.start[i] <= time &&
                                        time < data.end[i]);
    const i = Math.min(filled.length - 1, Math.floor(time / data.last * filled.length));
    const now = filled[i] ?? 0, held = line[i] ?? 0, peak = Math.max(0, ...filled.slice(0, i + 1));
    const unused = held > 0 ? ` (${(100 * Math.max(0, 1 - now / held)).toFixed(1)} % of it unused)` : "";
    tip.textContent = `${data.unit} ${Math.floor(time)}: ${names.filled} ${bytesText(now)} ` +
      `(peak so far ${bytesText(peak)}), ${names.line} ${bytesText(held)}${unused}; ${b < 0 ? "free" : words(b)}`;
    if (more && b >= 0) below.textContent = more(b).join("\n");
    cursor = time;
    draw();
  }

  function choose(x0, y0, x1, y1, isDone) {
    box = isDone ? null : { x0, y0, x1, y1 };
    if (!isDone) return drawMap();
    if (Math.abs(x1 - x0) > 4 && Math.abs(y1 - y0) > 4)
      view = { from: timeAt(Math.min(x0, x1)), to: timeAt(Math.max(x0, x1)), low: heightAt(Math.max(y0, y1)),
               high: heightAt(Math.min(y0, y1)) };
    draw();
  }

  gestures(map, { zoom, move, tell, choose, reset });
  search.oninput = () => {
    const finds = searchOf(search.value, data.bytes, b => [words(b), ...more?.(b) ?? []].join("\n"));
    matches = finds && data.bytes.map((_, b) => finds(b));
    const n = matches ? matches.filter(found => found).length : 0;
    count.textContent = !matches ? "" : n === 1 ? "1 block matches" : `${n} blocks match`;
    draw();
  };
  darkness.addEventListener("change", draw);
  window.addEventListener("resize", draw);
  /* Searches as if the text had been typed. */
  function find(text) {
    search.value = text;
    search.oninput();
  }
  return { reset, find };
}
