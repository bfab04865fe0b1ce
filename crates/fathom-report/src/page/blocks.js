// Address over time: each canvas draws the dots of one cell, decoded once from what encode.rs wrote.
(() => {
  'use strict';
  const block = document.getElementById('blocks');
  if (!block) return;
  const data = JSON.parse(block.textContent);
  const { time, plain } = window.fathomReport;
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const hidden = new Set();
  // Paper is light, whatever the reader's page is.
  const PAPER = { ink: '#444b53', rule: '#c9ced4', band: '#f1f4f7' };
  let printing = false;
  const FLUSH = 2, LEFT = 78, RIGHT = 10, TOP = 20, TICKS = 12, BOTTOM = 26, HEIGHT = 262;

  const bytes = (value) => (value < 1024 ? plain(value) + ' B' : value < 1048576 ? plain(value / 1024) + ' KiB' : plain(value / 1048576) + ' MiB');

  // Seven bits to a byte, the lowest first. Numbers may pass 2^31, so no shifts.
  function decode(picture) {
    const text = atob(picture.dots), n = picture.drawn;
    const at = new Float64Array(n), from = new Float64Array(n), length = new Float64Array(n), kind = new Uint8Array(n);
    let place = 0, now = 0, here = 0;
    const next = () => { let value = 0, scale = 1, byte; do { byte = text.charCodeAt(place++); value += (byte & 127) * scale; scale *= 128; } while (byte > 127); return value; };
    for (let i = 0; i < n; i++) {
      now += next();
      const step = next();
      here += step % 2 ? -(step + 1) / 2 : step / 2;
      at[i] = now * picture.unit_ns;
      from[i] = here * picture.unit_bytes;
      length[i] = next() * picture.unit_bytes;
      kind[i] = next();
    }
    return { at, from, length, kind, n };
  }

  // The stretches of the device that were touched; what lies between is cut out of the axis.
  function stretches(dots) {
    const order = [];
    for (let i = 0; i < dots.n; i++) if (dots.kind[i] >> 4 !== FLUSH) order.push(i);
    order.sort((a, b) => dots.from[a] - dots.from[b]);
    if (!order.length) return [{ from: 0, to: 1, at: 0 }];
    const merge = (gap) => {
      const all = [];
      for (const i of order) {
        const from = dots.from[i], to = from + dots.length[i], last = all[all.length - 1];
        if (last && from - last.to <= gap) last.to = Math.max(last.to, to); else all.push({ from, to });
      }
      return all;
    };
    const low = dots.from[order[0]];
    let high = 0;
    for (const i of order) high = Math.max(high, dots.from[i] + dots.length[i]);
    let gap = 64 * 1024, all = merge(gap);
    while (all.length > 7 && gap < high - low) { gap *= 2; all = merge(gap); }
    // A stretch of one block between two large ones must stay visible.
    const sum = all.reduce((s, it) => s + it.to - it.from, 0), least = sum / 14;
    let at = 0;
    for (const it of all) { it.at = at; it.size = Math.max(it.to - it.from, least); at += it.size + sum / 40; }
    return all;
  }

  const views = data.pictures.map((picture, index) => {
    const canvas = document.getElementById('address-' + index);
    return { picture, canvas, dots: null, parts: null, view: null, drag: null };
  });

  // All panels have one time axis: that of the longest, and what one zooms into, all show.
  const LONGEST = Math.max(1, ...data.pictures.map((it) => it.span_ns));
  const when = { x0: 0, x1: LONGEST };

  function prepare(view) {
    if (view.dots) return;
    const dots = (view.dots = decode(view.picture)), parts = (view.parts = stretches(dots));
    // Each dot's place on the cut axis, once.
    const y = (view.y = new Float64Array(dots.n)), h = (view.h = new Float64Array(dots.n));
    for (let i = 0; i < dots.n; i++) {
      if (dots.kind[i] >> 4 === FLUSH) continue;
      let low = 0, high = parts.length - 1;
      while (low < high) { const mid = (low + high + 1) >> 1; if (parts[mid].from <= dots.from[i]) low = mid; else high = mid - 1; }
      const part = parts[low], scale = part.size / (part.to - part.from || 1);
      y[i] = part.at + (dots.from[i] - part.from) * scale;
      h[i] = dots.length[i] * scale;
    }
    // The dots of each kind, in order of time.
    const kinds = new Map();
    for (let i = 0; i < dots.n; i++) { const kind = dots.kind[i]; if (!kinds.has(kind)) kinds.set(kind, []); kinds.get(kind).push(i); }
    // Reads first, so that writes lie over them.
    view.lists = [...kinds].sort((a, b) => (a[0] >> 4) - (b[0] >> 4) || a[0] - b[0]).map(([kind, index]) => ({ cause: kind & 15, op: kind >> 4, index: Int32Array.from(index) }));
    const last = parts[parts.length - 1];
    view.all = { x0: 0, x1: LONGEST, y0: 0, y1: last.at + last.size };
    view.view = { ...view.all, ...when };
  }

  // The first place in `index` (in order of time) whose time is not before `at`.
  function lowerBound(index, times, at) {
    let low = 0, high = index.length;
    while (low < high) { const mid = (low + high) >> 1; if (times[index[mid]] < at) low = mid + 1; else high = mid; }
    return low;
  }
  const little = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
  function packed(hex, alpha) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return (little ? (alpha << 24) | (b << 16) | (g << 8) | r : (r << 24) | (g << 16) | (b << 8) | alpha) >>> 0;
  }

  // The moments that are named on the time axis: round ones with room between them; the ends where fewer than two have it.
  function moments(from, to, room, widthOf) {
    const name = (t) => (t === 0 ? '0' : time(t)), span = to - from;
    const every = (step) => { const all = []; for (let t = Math.ceil(from / step) * step; t <= to; t += step) all.push([t, name(t)]); return all; };
    const power = 10 ** Math.floor(Math.log10(span / 20));
    for (const step of [1, 2, 5, 10, 20, 50, 100].map((m) => m * power)) {
      if ((step / span) * room < 40) continue;
      const all = every(step), widest = Math.max(0, ...all.map(([, text]) => widthOf(text)));
      if ((step / span) * room >= widest + 16) { if (all.length > 1) return all; break; }
    }
    return [[from, name(from)], [to, name(to)]];
  }

  function draw(view) {
    const { canvas } = view, width = Math.floor(canvas.parentElement.clientWidth);
    if (width < 60) return;
    prepare(view);
    const { dots, y, h, parts, picture } = view, v = view.view, scale = devicePixelRatio || 1;
    canvas.style.width = width + 'px'; canvas.style.height = HEIGHT + 'px';
    canvas.width = width * scale; canvas.height = HEIGHT * scale;
    const c = canvas.getContext('2d');
    c.scale(scale, scale);
    const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
    const { ink, rule, band } = printing ? PAPER : { ink: of('--muted'), rule: of('--line'), band: of('--hover') };
    const plotWidth = width - LEFT - RIGHT, plotHeight = HEIGHT - TOP - BOTTOM - TICKS;
    const X = (t) => LEFT + ((t - v.x0) / (v.x1 - v.x0)) * plotWidth, Y = (p) => TOP + plotHeight - ((p - v.y0) / (v.y1 - v.y0)) * plotHeight;
    view.geometry = { width, plotWidth, plotHeight };
    c.font = '12px ui-sans-serif, system-ui, sans-serif';
    // Phases as bands with their names, so that the pattern can be told from preparation and the end.
    c.save(); c.beginPath(); c.rect(LEFT, TOP, plotWidth, plotHeight + TICKS); c.clip();
    for (const [name, from, to] of picture.windows) {
      c.fillStyle = band; c.fillRect(X(from), TOP, Math.max(1, X(to) - X(from)), plotHeight + TICKS);
    }
    c.fillStyle = rule;
    for (const part of parts) { c.fillRect(LEFT, Y(part.at), plotWidth, 1); c.fillRect(LEFT, Y(part.at + part.size), plotWidth, 1); }
    // Dots go into pixels of our own: hundreds of thousands of rectangles would take a canvas too long for a smooth drag.
    const night = dark.matches && !printing, wide = Math.max(1, Math.round(plotWidth * scale)), tall = Math.max(1, Math.round((plotHeight + TICKS) * scale)), floor = Math.round(plotHeight * scale);
    const image = new ImageData(wide, tall), pixels = new Uint32Array(image.data.buffer);
    const fill = (x, y0, y1, breadth, colour) => {
      const left = Math.max(0, x), right = Math.min(wide, x + breadth), top = Math.max(0, y0), bottom = Math.min(y1, tall);
      // A few pixels each: a call of pixels.fill for each row would take longer than the pixels.
      for (let row = top * wide; row < bottom * wide; row += wide) for (let at = row + left; at < row + right; at++) pixels[at] = colour;
    };
    const across = wide / (v.x1 - v.x0), up = floor / (v.y1 - v.y0);
    let count = 0;
    for (const list of view.lists) {
      const { cause, op, index } = list;
      if (hidden.has(cause)) continue;
      const from = lowerBound(index, dots.at, v.x0), to = lowerBound(index, dots.at, v.x1);
      count += to - from;
      const colour = packed(night ? data.causes[cause].dark : data.causes[cause].light, op === 0 ? 110 : 255);
      const breadth = Math.max(1, Math.round((to - from > 4000 ? 1 : to - from > 600 ? 2 : 3) * scale));
      for (let k = from; k < to; k++) {
        const i = index[k], x = Math.round((dots.at[i] - v.x0) * across - breadth / 2);
        if (op === FLUSH) { fill(x, floor + Math.round(3 * scale), tall, Math.max(1, Math.round(scale)), colour); continue; }
        const bottom = floor - Math.round((y[i] - v.y0) * up), high = Math.max(Math.round(2 * scale), Math.round(h[i] * up));
        fill(x, Math.max(0, bottom - high), Math.min(bottom, floor), breadth, colour);
      }
    }
    const sheet = (view.sheet ||= document.createElement('canvas'));
    sheet.width = wide; sheet.height = tall;
    sheet.getContext('2d').putImageData(image, 0, 0);
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.drawImage(sheet, Math.round(LEFT * scale), Math.round(TOP * scale));
    c.scale(scale, scale);
    c.globalAlpha = 1; c.restore();
    // Names of phases where there is room.
    c.fillStyle = ink; c.textBaseline = 'top'; c.textAlign = 'center';
    for (const [name, from, to] of picture.windows) {
      const a = Math.max(X(from), LEFT), b = Math.min(X(to), LEFT + plotWidth);
      if (b - a > c.measureText(name).width + 8) c.fillText(name, (a + b) / 2, 4);
    }
    // Addresses at both ends of each stretch.
    c.textAlign = 'right'; c.textBaseline = 'middle';
    let lastY = Infinity;
    const addressAt = (p) => { for (const part of parts) if (p <= part.at + part.size) return part.from + Math.max(0, p - part.at) * ((part.to - part.from) / part.size); return parts[parts.length - 1].to; };
    const marks = parts.flatMap((part) => [part.at, part.at + part.size]).filter((p) => p >= v.y0 && p <= v.y1);
    for (const p of marks.length > 1 ? marks : [v.y0, (v.y0 + v.y1) / 2, v.y1]) {
      const at = Math.min(Math.max(Y(p), TOP + 5), TOP + plotHeight - 3);
      if (lastY - at < 13) continue;
      lastY = at;
      c.fillText(bytes(addressAt(p)), LEFT - 6, at);
    }
    c.fillText(picture.source === 'device' ? 'flushes' : 'syncs', LEFT - 6, TOP + plotHeight + TICKS / 2 + 2);
    // Time.
    c.textBaseline = 'alphabetic'; c.textAlign = 'center';
    const told = [];
    for (const [t, text] of moments(v.x0, v.x1, plotWidth, (words) => c.measureText(words).width)) {
      const x = X(t), half = c.measureText(text).width / 2;
      c.fillStyle = rule; c.fillRect(x, TOP + plotHeight + TICKS, 1, 4);
      c.fillStyle = ink;
      // At an end of the axis a label stays within the panel.
      c.fillText(text, Math.min(Math.max(x, half + 2), width - half - 2), HEIGHT - 6);
      told.push(text);
    }
    canvas.dataset.times = told.join(' ');
    c.strokeStyle = rule; c.strokeRect(LEFT + 0.5, TOP + 0.5, plotWidth - 1, plotHeight + TICKS - 1);
    if (view.drag && view.drag.to) {
      const { from, to } = view.drag;
      c.fillStyle = ink; c.globalAlpha = 0.15; c.fillRect(Math.min(from.x, to.x), Math.min(from.y, to.y), Math.abs(to.x - from.x), Math.abs(to.y - from.y)); c.globalAlpha = 1;
    }
    canvas.dataset.drawn = String(count);
  }

  let pending = new Set(), frame = 0;
  const soon = (view) => { pending.add(view); if (!frame) frame = requestAnimationFrame(() => { frame = 0; const now = pending; pending = new Set(); now.forEach(draw); }); };
  // What is not in sight is drawn when it comes into sight.
  const inSight = new Set();
  const watcher = new IntersectionObserver((entries) => { for (const entry of entries) { const view = views.find((it) => it.canvas === entry.target); if (entry.isIntersecting) { inSight.add(view); soon(view); } else inSight.delete(view); } }, { rootMargin: '300px' });

  const clamp = (view) => {
    const v = view.view, a = view.all;
    for (const [low, high] of [['x0', 'x1'], ['y0', 'y1']]) {
      const size = Math.min(Math.max(v[high] - v[low], (a[high] - a[low]) / 1e6), a[high] - a[low]);
      v[low] = Math.min(Math.max(v[low], a[low]), a[high] - size); v[high] = v[low] + size;
    }
    soon(view);
    if (when.x0 === v.x0 && when.x1 === v.x1) return;
    when.x0 = v.x0; when.x1 = v.x1;
    for (const other of views) if (other.view) { Object.assign(other.view, when); if (inSight.has(other)) soon(other); }
  };
  // Time by `factor` (below 1 is nearer), with what lies under `x` staying there.
  function zoom(view, x, factor) {
    const v = view.view, at = valueAt(view, { x, y: 0 }).x;
    v.x0 = at - (at - v.x0) * factor; v.x1 = at + (v.x1 - at) * factor;
    clamp(view);
  }
  const point = (view, event) => { const box = view.canvas.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
  const valueAt = (view, p) => { const { plotWidth, plotHeight } = view.geometry, v = view.view; return { x: v.x0 + ((p.x - LEFT) / plotWidth) * (v.x1 - v.x0), y: v.y0 + ((TOP + plotHeight - p.y) / plotHeight) * (v.y1 - v.y0) }; };

  const tip = document.body.appendChild(document.createElement('div'));
  tip.className = 'tip address-tip'; tip.hidden = true;
  function tell(view, event) {
    const p = point(view, event), at = valueAt(view, p), { dots, y, h } = view, v = view.view, { plotWidth, plotHeight } = view.geometry;
    const px = plotWidth / (v.x1 - v.x0), py = plotHeight / (v.y1 - v.y0), reach = 7 / px;
    let low = 0, high = dots.n;
    while (low < high) { const mid = (low + high) >> 1; if (dots.at[mid] < at.x - reach) low = mid + 1; else high = mid; }
    let best = -1, nearest = 60;
    for (let i = low; i < dots.n && dots.at[i] <= at.x + reach; i++) {
      if (hidden.has(dots.kind[i] & 15)) continue;
      const dx = (dots.at[i] - at.x) * px;
      const dy = dots.kind[i] >> 4 === FLUSH ? (p.y > TOP + plotHeight ? 0 : 99) : at.y < y[i] ? (y[i] - at.y) * py : at.y > y[i] + h[i] ? (at.y - y[i] - h[i]) * py : 0;
      if (dx * dx + dy * dy < nearest) { nearest = dx * dx + dy * dy; best = i; }
    }
    tip.hidden = best < 0;
    if (best < 0) return;
    const op = dots.kind[best] >> 4;
    tip.textContent = time(dots.at[best]) + ': ' + (op === FLUSH ? (view.picture.source === 'device' ? 'flush' : 'sync') : data.ops[op] + ' of ' + bytes(dots.length[best]) + ' at ' + bytes(dots.from[best]) + ', ' + data.causes[dots.kind[best] & 15].name);
    tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8) + 'px';
    tip.style.top = event.clientY + 14 + 'px';
  }

  for (const view of views) {
    const { canvas } = view;
    watcher.observe(canvas);
    // A wheel scrolls the page unless the panel has the focus or Ctrl is held; pinching on a touchpad is a wheel with Ctrl.
    canvas.addEventListener('wheel', (event) => {
      if (!view.geometry || !(event.ctrlKey || event.metaKey || document.activeElement === canvas)) return;
      event.preventDefault();
      zoom(view, point(view, event).x, 2 ** (Math.max(-60, Math.min(60, event.deltaY)) / (event.ctrlKey ? 60 : 120)));
    }, { passive: false });
    const fingers = new Map();
    const spread = () => { const [a, b] = [...fingers.values()]; return { x: (a.x + b.x) / 2, apart: Math.max(12, Math.abs(a.x - b.x)) }; };
    canvas.addEventListener('pointerdown', (event) => { if (event.pointerType === 'touch') { fingers.set(event.pointerId, point(view, event)); if (fingers.size > 1) view.drag = null; } });
    canvas.addEventListener('pointermove', (event) => {
      if (!fingers.has(event.pointerId) || fingers.size !== 2 || !view.geometry) return;
      const before = spread();
      fingers.set(event.pointerId, point(view, event));
      const after = spread();
      view.drag = null;
      zoom(view, after.x, before.apart / after.apart);
    });
    for (const end of ['pointerup', 'pointercancel', 'lostpointercapture']) canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
    // A touch that turns into scrolling is no drag, and leaves no frame behind.
    canvas.addEventListener('pointercancel', () => { view.drag = null; if (view.view) soon(view); });
    canvas.addEventListener('pointerdown', (event) => { if (event.button !== 0 || !view.geometry || fingers.size > 1) return; view.drag = { from: point(view, event), to: null }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointermove', (event) => {
      if (!view.geometry) return;
      if (view.drag) { view.drag.to = point(view, event); tip.hidden = true; soon(view); } else tell(view, event);
    });
    canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
    canvas.addEventListener('pointerup', () => {
      const drag = view.drag;
      view.drag = null;
      if (!drag || !drag.to) return;
      const a = valueAt(view, drag.from), b = valueAt(view, drag.to), wide = Math.abs(drag.to.x - drag.from.x), tall = Math.abs(drag.to.y - drag.from.y);
      if (wide > 6) { view.view.x0 = Math.min(a.x, b.x); view.view.x1 = Math.max(a.x, b.x); }
      // A drag along the time axis zooms time alone.
      if (tall > 14 && wide > 6) { view.view.y0 = Math.min(a.y, b.y); view.view.y1 = Math.max(a.y, b.y); }
      clamp(view);
    });
    canvas.addEventListener('dblclick', () => { view.view = { ...view.all }; clamp(view); });
    canvas.addEventListener('keydown', (event) => {
      if (!view.view || event.ctrlKey || event.metaKey || event.altKey) return;
      const v = view.view, w = v.x1 - v.x0, t = v.y1 - v.y0;
      const act = {
        '+': () => { v.x0 += w / 4; v.x1 -= w / 4; }, '=': () => { v.x0 += w / 4; v.x1 -= w / 4; },
        '-': () => { v.x0 -= w / 2; v.x1 += w / 2; v.y0 -= t / 2; v.y1 += t / 2; },
        ArrowLeft: () => { v.x0 -= w / 5; v.x1 -= w / 5; }, ArrowRight: () => { v.x0 += w / 5; v.x1 += w / 5; },
        ArrowUp: () => { v.y0 += t / 5; v.y1 += t / 5; }, ArrowDown: () => { v.y0 -= t / 5; v.y1 -= t / 5; },
        0: () => { view.view = { ...view.all }; },
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
      clamp(view);
    });
  }
  document.addEventListener('click', (event) => {
    const chip = event.target.closest('.chip[data-cause]');
    if (!chip) return;
    const cause = Number(chip.dataset.cause);
    if (hidden.has(cause)) hidden.delete(cause); else hidden.add(cause);
    chip.setAttribute('aria-pressed', String(!hidden.has(cause)));
    views.filter((it) => it.view).forEach(soon);
  });
  const again = () => inSight.forEach(soon);
  addEventListener('resize', again);
  dark.addEventListener('change', again);
  addEventListener('beforeprint', () => { printing = true; views.forEach(draw); });
  addEventListener('afterprint', () => { printing = false; inSight.forEach(draw); });
  document.addEventListener('fathom-filter', again);
  window.fathomBlocks = { views, draw };
})();
