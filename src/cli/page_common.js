"use strict";
/* What cannon's pages share: numbers, colours, and a map of addresses over time. */
const $ = id => document.getElementById(id);

function bytesText(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
  return (unit ? n.toPrecision(3) : n) + " " + units[unit];
}

/* Colour of a block by its size: from violet (512 B or less) to red (512 MiB or more). */
function colour(bytes) {
  const share = Math.min(1, Math.max(0, (Math.log2(bytes) - 9) / 20));
  return `hsl(${270 - 270 * share} 70% ${45 + 15 * share}%)`;
}

/* Gives a canvas the resolution of the screen. */
function surface(canvas) {
  canvas.width = Math.round(canvas.clientWidth * devicePixelRatio);
  canvas.height = Math.round(canvas.clientHeight * devicePixelRatio);
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  return context;
}

/* Draws blocks as rectangles (addresses upwards, time to the right) into the canvas `map`, and below it, in `curves`,
   a filled curve and a line over the same time. Dragging zooms in, a double click zooms out, and `tip` has the block
   under the mouse.
     data    last (of the times), unit (their name), start[], end[], bytes[] of the blocks
     picture()   what is shown now: place[] (of each block in the picture; -1: none), high (end of the places),
                 filled[], line[] and most (the largest value of the curves)
     words(b)    a block in words */
function addressMap(map, curves, tip, data, picture, words) {
  let view, drag = null;

  function drawMap() {
    const context = surface(map), { width, height } = map, { place } = picture();
    const perTime = width / (view.to - view.from), perByte = height / (view.high - view.low);
    for (let b = 0; b < place.length; b++) {
      if (place[b] < 0 || data.end[b] < view.from || data.start[b] > view.to) continue;
      const x = (data.start[b] - view.from) * perTime, wide = (data.end[b] - data.start[b]) * perTime;
      const top = height - (place[b] + data.bytes[b] - view.low) * perByte, high = data.bytes[b] * perByte;
      if (top > height || top + high < 0) continue;
      context.fillStyle = colour(data.bytes[b]);
      context.fillRect(x, top, Math.max(wide, 0.7), Math.max(high, 0.7));
    }
    if (!drag) return;
    context.strokeStyle = "#000";
    context.strokeRect(drag.x0, drag.y0, drag.x1 - drag.x0, drag.y1 - drag.y0);
  }

  function drawCurves() {
    const context = surface(curves), { width, height } = curves, { filled, line, most } = picture();
    const n = filled.length, x = i => ((i * data.last) / n - view.from) / (view.to - view.from) * width;
    const y = bytes => height - bytes / most * height;
    context.beginPath();
    context.moveTo(x(0), height);
    filled.forEach((bytes, i) => { context.lineTo(x(i), y(bytes)); context.lineTo(x(i + 1), y(bytes)); });
    context.lineTo(x(n), height);
    context.fillStyle = "#9bb8f0";
    context.fill();
    context.beginPath();
    line.forEach((bytes, i) => { context.lineTo(x(i), y(bytes)); context.lineTo(x(i + 1), y(bytes)); });
    context.strokeStyle = "#b02020";
    context.lineWidth = devicePixelRatio;
    context.stroke();
  }

  function draw() {
    drawMap();
    drawCurves();
  }

  function reset() {
    view = { from: 0, to: data.last, low: 0, high: picture().high };
    draw();
  }

  const pixel = mouse => {
    const box = map.getBoundingClientRect();
    return [(mouse.clientX - box.left) * devicePixelRatio, (mouse.clientY - box.top) * devicePixelRatio];
  };
  const timeAt = x => view.from + x / map.width * (view.to - view.from);
  const heightAt = y => view.low + (1 - y / map.height) * (view.high - view.low);

  function tell(x, y) {
    const time = timeAt(x), at = heightAt(y), { place } = picture();
    const b = place.findIndex((p, i) => p >= 0 && p <= at && at < p + data.bytes[i] && data.start[i] <= time &&
                                        time < data.end[i]);
    tip.textContent = `${data.unit} ${Math.floor(time)}: ` + (b < 0 ? "free" : words(b));
  }

  map.onmousedown = mouse => { const [x, y] = pixel(mouse); drag = { x0: x, y0: y, x1: x, y1: y }; };
  map.onmousemove = mouse => {
    const [x, y] = pixel(mouse);
    if (drag) { drag.x1 = x; drag.y1 = y; drawMap(); } else tell(x, y);
  };
  window.addEventListener("mouseup", () => {
    if (!drag) return;
    const { x0, x1, y0, y1 } = drag, moved = Math.abs(x1 - x0) > 4 && Math.abs(y1 - y0) > 4;
    drag = null;
    if (moved) view = { from: timeAt(Math.min(x0, x1)), to: timeAt(Math.max(x0, x1)),
                        low: heightAt(Math.max(y0, y1)), high: heightAt(Math.min(y0, y1)) };
    draw();
  });
  map.ondblclick = reset;
  window.addEventListener("resize", draw);
  return { draw, reset };
}
