// The page's own behaviour: filters, charts from the figure model, downloads. Everything is drawn by ECharts (above); this
// file turns Fathom's figure model into its options. No text of the results is ever used as HTML.
(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('data').textContent);
  const byId = (id) => document.getElementById(id);
  const THEMES = {
    light: { ink: '#1b1f24', muted: '#59616b', line: '#e2e4e8', axis: '#a6adb6', surface: '#ffffff', tip: '#ffffff' },
    dark: { ink: '#e8eaed', muted: '#a7afb9', line: '#31373e', axis: '#4e565f', surface: '#1b1f24', tip: '#252b32' },
  };
  // Single quotes: ECharts writes the family into an attribute of the SVG as it is.
  const FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif";
  const FSYNC = 3;
  // An ECDF's shares are in 10,000, see figure.rs.
  const WHOLE = 10000;
  const SYMBOLS = ['circle', 'rect', 'triangle', 'diamond', 'roundRect', 'emptyCircle', 'emptyRect'];
  const DASHES = data.dashes.map((dash) => (dash ? dash.split(' ').map(Number) : 'solid'));
  // Marks of the legend of a downloaded figure: filled, hollow, with stripes across, with stripes along.
  const ICONS = ['rect', 'path://M0,0h14v10h-14zM2,2v6h10v-6z', 'path://M0,0h14v2h-14zM0,4h14v2h-14zM0,8h14v2h-14z', 'path://M0,0h3v10h-3zM5,0h3v10h-3zM10,0h3v10h-3z'];
  // Panels of a series from which they are lower, so that many are seen at once.
  const MANY = 5;

  // ---- numbers: the rules of number.rs ----------------------------------------------------------------------------
  function plain(value) {
    if (!Number.isFinite(value)) return 'n/a';
    const size = Math.abs(value);
    let digits;
    if (size >= 99.95 || size === 0 || Number.isInteger(size)) digits = 0;
    else if (size >= 9.995) digits = 1;
    else if (size >= 0.9995) digits = 2;
    else digits = Math.min(9, Math.ceil(-Math.log10(size)) + 2);
    const [whole, fraction] = value.toFixed(digits).split('.');
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
    return fraction ? grouped + '.' + fraction : grouped;
  }
  function unitOf(ns) {
    const size = Math.abs(ns);
    if (size < 999.5) return [1, 'ns'];
    if (size < 999.5e3) return [1e3, 'µs'];
    if (size < 999.5e6) return [1e6, 'ms'];
    return [1e9, 's'];
  }
  function time(ns) { const [divisor, unit] = unitOf(ns); return plain(ns / divisor) + ' ' + unit; }
  function percent(share) { const p = share * 100; return p > 0 && p < 0.5 ? '<1 %' : p.toFixed(0) + ' %'; }
  const amount = (figure, value) => (figure.metric === 'time' ? time(value) : plain(value) + ' per second');
  function span(figure, mark) {
    if (mark.runs < 2) return '';
    const divisor = figure.metric === 'time' ? unitOf(mark.mid)[0] : 1;
    return '[' + plain(mark.low / divisor) + ', ' + plain(mark.high / divisor) + ']';
  }
  // `most` chooses the unit: all ticks of a linear axis have one, those of a logarithmic axis each their own.
  function tick(figure, value, most) {
    if (value === 0) return '0';
    if (figure.metric === 'time') { const [d, u] = unitOf(most); return trim(value / d) + ' ' + u; }
    return most >= 1e6 ? trim(value / 1e6) + 'M' : most >= 1e4 ? trim(value / 1e3) + 'k' : plain(value);
  }
  const trim = (value) => String(Number(value.toPrecision(3)));
  const count = (value) => (value >= 1e6 ? trim(value / 1e6) + 'M' : value >= 1e4 ? trim(value / 1e3) + 'k' : plain(value));

  // ---- filters: axis → values that are shown; no entry = all -------------------------------------------------------
  const filters = new Map();
  const axisOf = (key) => data.axes.find((axis) => axis.key === key);

  function readHash() {
    filters.clear();
    for (const part of location.hash.slice(1).split('&')) {
      const [key, values] = part.split('=');
      let axis;
      try { axis = axisOf(decodeURIComponent(key)); } catch { continue; }
      if (!axis || values === undefined) continue;
      const known = values.split(',')
        .map((v) => { try { return decodeURIComponent(v); } catch { return null; } })
        .filter((v) => axis.values.includes(v));
      if (known.length) filters.set(axis.key, new Set(known));
    }
  }
  function writeHash() {
    const parts = [...filters].map(([key, values]) =>
      encodeURIComponent(key) + '=' + [...values].map(encodeURIComponent).join(','));
    history.replaceState(null, '', parts.length ? '#' + parts.join('&') : location.pathname + location.search);
  }
  const shown = (cell) => [...filters].every(([key, values]) => values.has(cell.axes[key]));
  function toggle(key, value) {
    const axis = axisOf(key);
    if (!axis) return;
    const values = filters.get(key) || new Set();
    if (values.has(value)) values.delete(value); else values.add(value);
    if (values.size === 0 || values.size === axis.values.length) filters.delete(key); else filters.set(key, values);
    writeHash();
    apply();
  }

  // ---- from the figure model to ECharts ---------------------------------------------------------------------------
  const dark = matchMedia('(prefers-color-scheme: dark)');
  let printing = false;
  const isDark = () => dark.matches && !printing;
  const pick = (colour, night) => (night ? colour.dark : colour.light);
  const settings = new Map(data.figures.map((f) => [f.id, { log: f.log_y, share: false }]));

  const measuring = document.createElement('canvas').getContext('2d');
  function textWidth(text, size) {
    measuring.font = size + 'px ' + FONT;
    return measuring.measureText(text).width;
  }

  // A text in lines that have room, broken after spaces and slashes and never within a word.
  function wrap(text, room, size) {
    const lines = [''];
    for (const word of text.match(/[^\s/]*[\s/]*/g).filter(Boolean)) {
      const last = lines[lines.length - 1];
      if (last && textWidth((last + word).trimEnd(), size) > room) lines.push(word); else lines[lines.length - 1] = last + word;
    }
    return lines.map((line) => line.trim());
  }
  // A name with … in its middle where it has no room, for names differ at their ends; tips and tables have it whole.
  function shortened(name, room, size) {
    if (textWidth(name, size) <= room) return name;
    const letters = Array.from(name);
    const cut = (kept) => letters.slice(0, kept - (kept >> 1)).join('') + '…' + letters.slice(letters.length - (kept >> 1)).join('');
    let [kept, most] = [0, letters.length];
    while (kept < most) { const more = (kept + most + 1) >> 1; if (textWidth(cut(more), size) <= room) kept = more; else most = more - 1; }
    return cut(kept);
  }
  // Names under bars of this breadth: in lines where every word has room, slanted or upright where one has not. However long
  // they are, the bars stay what is seen.
  const LINE = 15, NAME_LINES = 5, NAME_LONGEST = 180;
  function underBars(names, breadth, left) {
    const room = breadth - 6, whole = names.map((name) => wrap(name, room, 12));
    if (whole.flat().every((line) => textWidth(line, 12) <= room)) {
      const lines = whole.map((all) => (all.length > NAME_LINES ? [...all.slice(0, NAME_LINES - 2), '…', all[all.length - 1]] : all));
      return { height: LINE * Math.max(1, ...lines.map((all) => all.length)), label: { lineHeight: LINE, formatter: (name, place) => lines[place].join('\n') } };
    }
    const told = names.map((name) => shortened(name, NAME_LONGEST, 12));
    const longest = Math.max(...told.map((name) => textWidth(name, 12)));
    const rotate = longest / 2 > left + breadth / 2 ? 90 : 60;
    return { height: longest * Math.sin((rotate * Math.PI) / 180) + 10, label: { rotate, formatter: (name, place) => told[place] } };
  }

  // The power of ten below a number.
  const decade = (value) => 10 ** Math.floor(Math.log10(Number.isFinite(value) && value > 0 ? value : 1));

  // A round step and a maximum that is a multiple of it.
  function scale(max, steps) {
    if (!(max > 0)) return { max: 1, interval: 1 };
    const rough = max / steps;
    const power = 10 ** Math.floor(Math.log10(rough));
    const interval = [1, 2, 2.5, 5, 10].map((m) => m * power).find((step) => step >= rough);
    return { max: Math.ceil(max / interval - 1e-9) * interval, interval };
  }
  // Of the decades of a logarithmic axis as many are named as have room, the lowest first.
  function decadesNamed(lowest, highest, length, room, name) {
    const each = length / Math.max(1, Math.log10(highest / lowest)), step = Math.max(1, Math.ceil(room / each));
    return (value) => (Math.round(Math.log10(value / lowest)) % step ? '' : name(value));
  }
  function valueAxis(figure, log, low, high, look, steps = 4, length = 250) {
    const named = log ? decadesNamed(decade(low), high, length, 22, (v) => tick(figure, v, v)) : (v) => tick(figure, v, high);
    const common = {
      axisLabel: { color: look.muted, fontSize: 11, formatter: named, hideOverlap: true },
      axisLine: { show: false }, axisTick: { show: false },
      splitLine: { lineStyle: { color: look.line } },
    };
    if (!log) return { type: 'value', min: 0, ...scale(high, steps), ...common };
    return { type: 'log', logBase: 10, min: decade(low), max: 10 ** Math.ceil(Math.log10(high)), ...common };
  }

  function optionOf(figure, width, night, forFile) {
    const look = THEMES[night ? 'dark' : 'light'];
    const cells = new Set(data.cells.filter(shown).map((cell) => cell.id));
    const marks = figure.marks.filter((mark) => cells.has(mark.cell));
    const lines = figure.lines.filter((line) => cells.has(line.cell));
    const used = [...marks, ...lines];
    const panels = figure.panels.map((panel, index) => ({ ...panel, index })).filter((p) => used.some((m) => m.panel === p.index));
    const series = figure.series.map((s, index) => ({ ...s, index })).filter((s) => used.some((m) => m.series === s.index));
    const groups = figure.groups.map((name, index) => ({ name, index })).filter((g) => marks.some((m) => m.group === g.index));
    const chosen = settings.get(figure.id);
    const split = figure.kind === 'split', ecdf = figure.kind === 'ecdf';
    const log = chosen.log && !split;
    const share = chosen.share && split;

    const option = {
      animation: false, backgroundColor: forFile ? look.surface : 'transparent', textStyle: { fontFamily: FONT, color: look.ink },
      grid: [], xAxis: [], yAxis: [], series: [], title: [],
      tooltip: {
        trigger: figure.kind === 'series' || ecdf ? 'axis' : 'item', confine: true, appendTo: undefined, className: 'tip', padding: [8, 12],
        backgroundColor: look.tip, borderColor: look.line, textStyle: { color: look.ink, fontSize: 13, fontFamily: FONT },
        axisPointer: { type: 'line', lineStyle: { color: look.axis } }, transitionDuration: 0,
      },
    };
    if (forFile) option.tooltip.show = false;

    // One ruler for all panels: a panel that looks higher is higher.
    const total = (mark) => mark.parts.reduce((a, b) => a + b, 0);
    // Of two runs an interval may reach a thousand times as far as the values, which are to be seen.
    const mids = marks.map((mark) => mark.mid);
    const reach = [log ? Math.min(...mids) / 3 : 0, Math.max(...mids) * 3];
    const within = (value) => Math.min(Math.max(value, reach[0]), reach[1]);
    // 1 where it is cut there: an end that is not the interval's has no bar across it.
    const cut = (value) => (value === within(value) ? 0 : 1);
    const isCut = !split && marks.some((mark) => cut(mark.low) || cut(mark.high));
    let low = Infinity, high = 0;
    for (const mark of marks) { low = Math.min(low, within(mark.low)); high = Math.max(high, split ? total(mark) : within(mark.high)); }
    // Of model time an execution may have nothing, which has no place on a logarithmic axis: it is drawn at its lower end.
    for (const line of lines) for (const [, y] of line.points) { if (y > 0) low = Math.min(low, y); high = Math.max(high, y); }
    if (share) { low = 0; high = 1; }

    // What a split's rows are labelled with: the share of fsync, or where there is none, of the largest part.
    const told = marks.some((m) => m.parts && m.parts[FSYNC] > 0.005 * total(m)) ? () => FSYNC : (mark) => mark.parts.indexOf(Math.max(...mark.parts));
    const tell = (mark) => percent(mark.parts[told(mark)] / total(mark)) + ' ' + data.parts[told(mark)].name;

    // Panels side by side as the width allows.
    const rowsOf = (panel) => groups.flatMap((g) => series.filter((s) => marks.some((m) => m.panel === panel.index && m.group === g.index && m.series === s.index)).map((s) => ({ g, s })));
    const barsPerPanel = groups.length * series.length;
    const names = split ? panels.flatMap((p) => rowsOf(p).map(({ g, s }) => rowName(g, s))) : [];
    const nameWidth = 22 + Math.max(28, ...names.map((n) => textWidth(n, 12)));
    const small = figure.kind === 'series' && panels.length >= MANY;
    const least = split ? 300 + Math.min(190, nameWidth) : figure.kind === 'bars' ? Math.max(190, 60 + barsPerPanel * 17) : small ? 270 : 340;
    const columns = Math.max(1, Math.min(panels.length, Math.floor((width + 16) / (least + 16))));
    const gap = 20;
    const cellWidth = (width - gap * (columns - 1)) / columns;
    // Where names would take the room of the bars (a phone), they stand above them.
    const stacked = split && nameWidth > cellWidth * 0.3;
    const left = stacked ? 6 : split ? nameWidth : 58;
    // A split's rows end with their words: "99.9 ms, 98 % fsync".
    const words = (mark) => (share ? '' : time(total(mark)) + ', ') + tell(mark);
    const room = split ? 10 + Math.max(0, ...marks.map((mark) => textWidth(words(mark), 11))) : 0;
    const right = split ? Math.max(share ? 76 : 116, room) : figure.kind === 'bars' ? 10 : 22;
    const drawsLines = figure.kind === 'range' || figure.kind === 'series' || ecdf;
    const inLegend = (name) => shortened(name, width * 0.8, 12);
    const legendHeight = forFile ? 22 * Math.ceil((split ? data.parts : series).reduce((sum, s) => sum + (drawsLines ? 50 : 36) + textWidth(inLegend(s.name), 12), 0) / width) + 6 : 0;
    const titleLines = forFile ? wrap(figure.title, width * 0.9, 16) : [];
    const heading = forFile ? 14 + 20 * titleLines.length : 0;
    const rows = Math.ceil(panels.length / columns);
    const tallest = split ? Math.max(1, ...panels.map((p) => rowsOf(p).length)) : 0;
    const body = ecdf ? 250 : split ? tallest * (stacked ? 44 : 30) + 6 : figure.kind === 'series' ? (small ? 120 : 230) : columns === 1 && panels.length === 1 ? 250 : 190;
    const hasTitles = panels.some((p) => p.title);
    const above = hasTitles ? 24 : 4;
    // With one phase each bar has its own name below; with several the phases are the groups.
    const single = groups.length <= 1;
    const placesOf = (panel) => (single ? series.filter((s) => marks.some((m) => m.panel === panel.index && m.series === s.index)) : groups);
    const below_bars = figure.kind === 'bars' ? panels.map((panel) => underBars(placesOf(panel).map((p) => p.name), (cellWidth - left - right) / placesOf(panel).length, left)) : [];
    // What the axis is called stands in its middle, and may reach as far beyond it as there is room on the right.
    const abscissa = wrap(figure.abscissa + (figure.abscissa && figure.log_x ? ', logarithmic axis' : ''), cellWidth - left + right, 12);
    const below = figure.kind === 'bars' ? 15 + Math.max(15, ...below_bars.map((it) => it.height)) : figure.abscissa ? 31 + LINE * abscissa.length : 30;
    const quantity = wrap(figure.quantity + (share ? ', share' : '') + (log ? ', logarithmic axis' : '') + (isCut ? '; an interval without a bar at its end reaches beyond what is drawn' : ''), width - 4, 12);
    const caption = 9 + LINE * quantity.length;

    if (forFile) option.title.push({ text: titleLines.join('\n'), left: 0, top: 4, textStyle: { fontSize: 16, lineHeight: 20, fontWeight: 600, color: look.ink, fontFamily: FONT } });
    option.title.push({ text: quantity.join('\n'), left: 0, top: heading + legendHeight, padding: [3, 0, 0, 0], textStyle: { fontSize: 12, lineHeight: LINE, fontWeight: 400, color: look.muted, fontFamily: FONT } });

    function rowName(g, s) { return groups.length > 1 ? (series.length > 1 ? s.name + ', ' + g.name : g.name) : s.name; }

    panels.forEach((panel, k) => {
      const x = (k % columns) * (cellWidth + gap);
      const y = heading + legendHeight + caption + Math.floor(k / columns) * (above + body + below);
      option.grid.push({ left: x + left, top: y + above, width: Math.max(40, cellWidth - left - right), height: body, containLabel: false });
      if (panel.title) option.title.push({ text: panel.title, left: x + (split ? 0 : left), top: y + 2, padding: 0, textStyle: { fontSize: 13, fontWeight: 600, color: look.ink, fontFamily: FONT, width: cellWidth - 60, overflow: 'truncate' } });
      const at = { xAxisIndex: k, yAxisIndex: k };
      const mine = marks.filter((m) => m.panel === panel.index);
      const quiet = { axisTick: { show: false }, axisLine: { lineStyle: { color: look.axis } } };
      const label = { color: look.muted, fontSize: 11 };

      if (split) {
        const rowsHere = rowsOf(panel);
        option.yAxis.push({ type: 'category', gridIndex: k, inverse: true, data: rowsHere.map(({ g, s }) => rowName(g, s)), ...quiet, axisLabel: stacked
          ? { color: look.ink, fontSize: 12, inside: true, align: 'left', verticalAlign: 'bottom', padding: [0, 0, 11, 2], margin: 0, width: cellWidth - 8, overflow: 'truncate' }
          : { color: look.ink, fontSize: 12, width: left - 14, overflow: 'truncate' } });
        const ruler = share
          ? { type: 'value', min: 0, max: 1, interval: 0.25, axisLabel: { ...label, formatter: (v) => percent(v) }, splitLine: { lineStyle: { color: look.line } }, axisLine: { show: false } }
          : valueAxis(figure, false, 0, high, look, cellWidth - left - right < 260 ? 2 : 4);
        option.xAxis.push({ ...ruler, gridIndex: k });
        data.parts.forEach((part, p) => {
          option.series.push({
            type: 'bar', name: part.name, ...at, stack: 'panel' + k, barWidth: stacked ? 13 : Math.min(20, (0.68 * body) / rowsHere.length), cursor: 'pointer',
            itemStyle: { color: pick(part, night), borderColor: look.surface, borderWidth: 0.6 }, emphasis: { disabled: true },
            data: rowsHere.map(({ g, s }) => {
              const mark = mine.find((m) => m.group === g.index && m.series === s.index);
              const all = total(mark);
              return { value: share ? mark.parts[p] / all : mark.parts[p], mark, part: p };
            }),
            label: p === data.parts.length - 1
              ? { show: true, position: 'right', color: look.ink, fontSize: 11, backgroundColor: look.surface, padding: [1, 2], distance: 4, formatter: (q) => words(q.data.mark) }
              : { show: false },
          });
        });
        return;
      }

      option.yAxis.push({
        ...valueAxis(figure, log, low, high, look, small ? 2 : 4, body), gridIndex: k,
        ...(ecdf ? { min: 0, max: WHOLE, interval: WHOLE / 4, axisLabel: { color: look.muted, fontSize: 11, formatter: (v) => percent(v / WHOLE) } } : {}),
      });
      if (figure.kind === 'bars') {
        const places = placesOf(panel);
        option.xAxis.push({ type: 'category', gridIndex: k, data: places.map((p) => p.name), ...quiet, axisLabel: { ...label, color: look.ink, fontSize: 12, interval: 0, hideOverlap: false, ...below_bars[k].label } });
        series.forEach((s, i) => {
          const own = mine.filter((m) => m.series === s.index);
          option.series.push({
            type: 'custom', name: s.name, ...at, encode: { x: 0, y: [1, 2, 3] }, cursor: 'pointer', itemStyle: { color: pick(data.colours[s.colour], night) },
            data: own.map((mark) => ({ value: [single ? places.findIndex((p) => p.index === s.index) : places.findIndex((p) => p.index === mark.group), mark.mid, within(mark.low), within(mark.high), cut(mark.low), cut(mark.high)], mark })),
            renderItem: (params, api) => bar(api, single ? 0 : i, single ? 1 : series.length, log, s.pattern, pick(data.colours[s.colour], night), look),
          });
        });
        return;
      }
      const numbers = ecdf ? lines.flatMap((l) => [(l.points.find(([x]) => x > 0) || [1])[0], l.points[l.points.length - 1][0]]) : figure.kind === 'range' ? mine.map((m) => m.x) : lines.flatMap((l) => [1, l.total]);
      const leftmost = figure.log_x ? decade(Math.max(1, Math.min(...numbers))) : -Infinity, lowest = log ? decade(low) : -Infinity;
      const rightmost = figure.log_x ? 10 ** Math.ceil(Math.log10(Math.max(...numbers))) : Math.max(...numbers);
      const named = ecdf ? (v) => time(v).replace(/\.0+ /, ' ') : count;
      const acrossName = figure.log_x ? decadesNamed(leftmost, rightmost, cellWidth - left - right, 52, named) : named;
      option.xAxis.push({
        type: figure.log_x ? 'log' : 'value', gridIndex: k, min: figure.log_x ? leftmost : figure.kind === 'range' && Math.min(...numbers) < 3 ? 0 : 1,
        max: rightmost, name: abscissa.join('\n'), nameLocation: 'middle', nameGap: 26,
        nameTextStyle: { color: look.muted, fontSize: 12, lineHeight: LINE }, ...quiet, axisLabel: { ...label, formatter: acrossName, hideOverlap: true, showMinLabel: true }, splitLine: { show: false },
      });
      for (const s of series) {
        const colour = pick(data.colours[s.colour], night);
        if (figure.kind === 'series' || ecdf) {
          for (const line of lines.filter((l) => l.panel === panel.index && l.series === s.index)) {
            option.series.push({
              type: 'line', name: s.name, ...at, showSymbol: false, symbol: forFile ? 'none' : SYMBOLS[s.index % 7], step: ecdf ? 'end' : undefined, lineStyle: { width: ecdf ? 1.8 : line.points.length > 400 ? 0.8 : 1.4, type: ecdf ? DASHES[s.dash] : 'solid', color: colour }, itemStyle: { color: colour },
              emphasis: { disabled: true }, data: line.points.map(([x, y]) => [Math.max(x, leftmost), Math.max(y, lowest)]), line,
            });
          }
          continue;
        }
        const own = mine.filter((m) => m.series === s.index && m.x !== undefined).sort((a, b) => a.x - b.x);
        option.series.push({
          type: 'line', name: s.name, ...at, symbol: SYMBOLS[s.index % 7], symbolSize: 7, lineStyle: { width: 1.8, type: DASHES[s.dash], color: colour }, itemStyle: { color: colour },
          emphasis: { scale: 1.4, lineStyle: { width: 1.8 } }, cursor: 'pointer', data: own.map((mark) => ({ value: [mark.x, mark.mid], mark })),
        });
        option.series.push({
          type: 'custom', name: s.name, ...at, silent: true, tooltip: { show: false }, encode: { x: 0, y: [1, 2] }, data: own.map((m) => [m.x, within(m.low), within(m.high), cut(m.low), cut(m.high)]), z: 1,
          renderItem: (params, api) => whisker(api.coord([api.value(0), api.value(1)]), api.coord([api.value(0), api.value(2)]), 4, colour, [api.value(3), api.value(4)]),
        });
      }
    });
    if (forFile) option.legend = { show: true, left: 0, top: heading - 4, itemWidth: drawsLines ? 28 : 14, itemHeight: 10, padding: 0, selectedMode: false, formatter: inLegend, textStyle: { color: look.ink, fontSize: 12 }, data: (split ? data.parts : series).map((s) => ({ name: s.name, icon: drawsLines ? undefined : ICONS[s.pattern || 0] })) };

    // Panels of a series go over the same executions: they zoom together.
    if (figure.kind === 'series' && !forFile) option.dataZoom = [{ type: 'inside', xAxisIndex: panels.map((_, k) => k), zoomOnMouseWheel: 'ctrl', moveOnMouseMove: true, moveOnMouseWheel: false, preventDefaultMouseMove: false, filterMode: 'none' }];
    option.tooltip.formatter = (params) => tip(figure, series, groups, params, option.series);
    const height = heading + legendHeight + caption + rows * (above + body + below);
    return { option, height, empty: used.length === 0 };
  }

  function whisker([x, y1], [, y2], half, colour, isCut) {
    const style = { stroke: colour, lineWidth: 1.2, fill: undefined };
    const stroke = (shape) => ({ type: 'line', shape, style, silent: true });
    const ends = [y1, y2].filter((_, end) => !isCut[end]).map((y) => stroke({ x1: x - half, y1: y, x2: x + half, y2: y }));
    return { type: 'group', children: [stroke({ x1: x, y1, x2: x, y2 }), ...ends] };
  }
  function bar(api, index, of, log, pattern, colour, look) {
    const place = api.value(0);
    const [x, y] = api.coord([place, api.value(1)]);
    const band = api.size([1, 0])[0];
    const breadth = Math.min(38, (band * 0.8) / of);
    const centre = x + (index - (of - 1) / 2) * breadth;
    const low = api.coord([place, api.value(2)]), high = api.coord([place, api.value(3)]);
    // A bar has a length, and on a logarithmic axis lengths say nothing: there it is a point.
    const r = Math.min(5, breadth / 2), tall = Math.max(0.5, api.coord([place, 0])[1] - y);
    const box = log ? { x: centre - r, y: y - r, width: 2 * r, height: 2 * r } : { x: centre - breadth / 2 + 0.75, y, width: breadth - 1.5, height: tall };
    const style = pattern === 1 ? { fill: look.surface, stroke: colour, lineWidth: 2 } : { fill: colour };
    const inset = pattern === 1 ? 1 : 0;
    const body = log
      ? { type: 'circle', shape: { cx: centre, cy: y, r: r - inset }, style }
      : { type: 'rect', shape: { x: box.x + inset, y: y + inset, width: Math.max(0.5, box.width - 2 * inset), height: Math.max(0.5, tall - 2 * inset), r: [2, 2, 0, 0] }, style };
    const ends = whisker([centre, low[1]], [centre, high[1]], Math.min(5, breadth / 4), log ? colour : look.ink, [api.value(4), api.value(5)]);
    return { type: 'group', children: [body, ...stripes(box, pattern, look.surface), ends] };
  }
  // What tells a bar from another of its colour, see palette.rs: across (2) or along (3).
  function stripes(box, pattern, colour) {
    if (pattern < 2) return [];
    const across = pattern === 2, length = across ? box.height : box.width, step = length < 12 ? length / 3 : 4, all = [];
    for (let at = step; at < length - 0.5; at += step) {
      const shape = across ? { x1: box.x, y1: box.y + at, x2: box.x + box.width, y2: box.y + at } : { x1: box.x + at, y1: box.y, x2: box.x + at, y2: box.y + box.height };
      all.push({ type: 'line', shape, style: { stroke: colour, lineWidth: 1.4, fill: undefined }, silent: true });
    }
    return all;
  }

  // ---- the exact values under the pointer -------------------------------------------------------------------------
  // The curve under the pointer, not its nearest point: the share of executions up to `at`.
  function share(p, at, drawn) {
    const points = drawn[p.seriesIndex].data;
    let value = 0;
    for (const [x, y] of points) { if (x > at) break; value = y; }
    return (value / WHOLE * 100).toFixed(value > 0.99 * WHOLE ? 2 : 1) + ' %';
  }
  const element = (tag, text) => { const node = document.createElement(tag); if (text !== undefined) node.textContent = text; return node; };
  function tip(figure, series, groups, params, drawn) {
    const box = element('div');
    const list = Array.isArray(params) ? params : [params];
    if (Array.isArray(params)) {
      if (!list.length) return '';
      const ecdf = figure.kind === 'ecdf';
      const at = list[0].axisValue ?? list[0].value[0];
      box.append(element('b', ecdf ? 'at most ' + time(at) : figure.abscissa + ' ' + plain(list[0].value[0])));
      const table = box.appendChild(element('table'));
      // Every curve has a share there, and not only the one whose step is next to the pointer.
      const panel = drawn[list[0].seriesIndex].xAxisIndex;
      const all = drawn.map((s, seriesIndex) => ({ seriesIndex, seriesName: s.name })).filter((p) => drawn[p.seriesIndex].xAxisIndex === panel);
      for (const p of ecdf ? all : list) { const row = table.insertRow(); row.insertCell().textContent = p.seriesName; row.insertCell().textContent = ecdf ? share(p, at, drawn) : time(drawn[p.seriesIndex].line.points[p.dataIndex][1]); }
      return box;
    }
    const mark = params.data && params.data.mark;
    if (!mark) return '';
    const words = [figure.series[mark.series].name, figure.panels[mark.panel].title, figure.groups[mark.group]];
    box.append(element('b', [...new Set(words.filter(Boolean))].join(' · ')));
    if (mark.x !== undefined) box.append(element('div', plain(mark.x) + ' ' + figure.abscissa));
    box.append(element('div', amount(figure, mark.mid) + ' ' + span(figure, mark)));
    box.append(element('div', mark.runs === 1 ? 'one run, which has no interval' : 'mean and 95 % interval of ' + mark.runs + ' runs'));
    if (mark.parts) {
      const all = mark.parts.reduce((a, b) => a + b, 0);
      const table = box.appendChild(element('table'));
      data.parts.forEach((part, i) => {
        const row = table.insertRow();
        row.insertCell().textContent = part.name;
        row.insertCell().textContent = time(mark.parts[i]);
        row.insertCell().textContent = percent(mark.parts[i] / all);
      });
    }
    return box;
  }

  // ---- drawing ----------------------------------------------------------------------------------------------------
  const charts = new Map();
  function draw(figure) {
    const place = byId('chart-' + data.figures.indexOf(figure));
    const width = printing ? 680 : Math.floor(place.clientWidth);
    if (width < 40) return;
    const { option, height, empty } = optionOf(figure, width, isDark(), false);
    let chart = charts.get(figure.id);
    place.style.height = (empty ? 80 : height) + 'px';
    if (!chart) {
      chart = echarts.init(place, null, { renderer: 'svg', width, height });
      charts.set(figure.id, chart);
      if (figure.kind === 'series') chart.getZr().on('dblclick', () => chart.dispatchAction({ type: 'dataZoom', start: 0, end: 100 }));
      chart.on('click', (event) => {
        const mark = event.data && event.data.mark;
        const value = mark && figure.series[mark.series].value;
        if (figure.by && value !== null && value !== undefined) toggle(figure.by, value);
      });
    } else {
      chart.resize({ width, height: empty ? 80 : height, silent: true });
    }
    if (empty) option.title = [{ text: filters.size ? 'No cell of this figure passes the filter.' : 'Nothing was measured for this figure.', left: 'center', top: 'middle', textStyle: { fontSize: 14, fontWeight: 400, color: THEMES[isDark() ? 'dark' : 'light'].muted } }];
    chart.setOption(option, { notMerge: true, lazyUpdate: false });
    chart.getZr().flush();
  }
  const drawAll = () => data.figures.forEach(draw);

  function apply() {
    const visible = new Set(data.cells.filter(shown).map((cell) => cell.id));
    for (const chip of document.querySelectorAll('.chip[data-axis]')) {
      const values = filters.get(chip.dataset.axis);
      chip.setAttribute('aria-pressed', String(Boolean(values && values.has(chip.dataset.value))));
    }
    for (const row of document.querySelectorAll('[data-cell]')) row.hidden = !visible.has(Number(row.dataset.cell));
    const status = byId('status');
    if (status) {
      status.textContent = filters.size ? 'Showing ' + visible.size + ' of ' + data.cells.length + ' cells' : 'All ' + data.cells.length + ' cells';
      byId('reset').hidden = filters.size === 0;
    }
    drawAll();
    document.dispatchEvent(new Event('fathom-filter'));
  }

  // ---- downloads --------------------------------------------------------------------------------------------------
  function save(name, type, text) {
    const link = document.createElement('a');
    const url = URL.createObjectURL(new Blob([text], { type }));
    link.href = url;
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }
  const fileName = (figure, ending) => (data.name + '-' + figure.id).replace(/[^A-Za-z0-9._-]+/g, '-') + '.' + ending;
  function svgOf(figure) {
    const { option, height } = optionOf(figure, 900, false, true);
    const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: 900, height });
    chart.setOption(option);
    const text = chart.renderToSVGString();
    chart.dispose();
    return text;
  }
  function csvOf(figure) {
    const visible = new Map(data.cells.filter(shown).map((cell) => [cell.id, cell]));
    // RFC 4180, and no field that a spreadsheet would run as a formula.
    const field = (value) => {
      let text = value === null || value === undefined ? '' : String(value);
      if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
      return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
    };
    const keys = data.axes.map((axis) => axis.key);
    const unit = figure.metric === 'time' ? '_ns' : '_per_second';
    const rows = [];
    const ecdf = figure.kind === 'ecdf';
    if (ecdf || figure.kind === 'series') {
      // What single executions are timed in, and of several panels (phases) which a line is in.
      const time = (ecdf ? figure.abscissa : figure.quantity).includes(', model time') ? 'model_ns' : 'wall_ns';
      const several = figure.panels.length > 1;
      rows.push(['cell', ...keys, ...(several ? ['panel'] : []), ...(ecdf ? [time, 'share'] : ['run', 'execution', time])]);
      for (const line of figure.lines) {
        const cell = visible.get(line.cell);
        if (!cell) continue;
        const place = [cell.label, ...keys.map((k) => cell.axes[k]), ...(several ? [figure.panels[line.panel].title] : [])];
        for (const [x, y] of line.points) rows.push([...place, ...(ecdf ? [x, y / WHOLE] : [line.run, x, y])]);
      }
    } else {
      rows.push(['cell', ...keys, 'phase', 'x', 'mean' + unit, 'low' + unit, 'high' + unit, 'runs', ...(figure.kind === 'split' ? data.parts.map((p) => p.name.toLowerCase() + '_ns') : [])]);
      for (const mark of figure.marks) {
        const cell = visible.get(mark.cell);
        if (cell) rows.push([cell.label, ...keys.map((k) => cell.axes[k]), figure.groups[mark.group], mark.x, mark.mid, mark.low, mark.high, mark.runs, ...(mark.parts || [])]);
      }
    }
    return rows.map((row) => row.map(field).join(',')).join('\r\n') + '\r\n';
  }

  // ---- wiring -----------------------------------------------------------------------------------------------------
  document.addEventListener('click', (event) => {
    const chip = event.target.closest('.chip[data-axis]');
    if (chip) { toggle(chip.dataset.axis, chip.dataset.value); return; }
    const tool = event.target.closest('[data-tool]');
    if (!tool) return;
    const figure = data.figures[Number(tool.dataset.figure)];
    switch (tool.dataset.tool) {
      case 'reset': filters.clear(); writeHash(); apply(); break;
      case 'svg': save(fileName(figure, 'svg'), 'image/svg+xml', svgOf(figure)); break;
      case 'csv': save(fileName(figure, 'csv'), 'text/csv', csvOf(figure)); break;
      case 'log': case 'share': {
        const chosen = settings.get(figure.id);
        chosen[tool.dataset.tool] = !chosen[tool.dataset.tool];
        tool.setAttribute('aria-pressed', String(chosen[tool.dataset.tool]));
        draw(figure);
        break;
      }
      case 'copy': {
        const text = byId('command').textContent;
        const done = () => { tool.textContent = 'Copied'; setTimeout(() => { tool.textContent = 'Copy'; }, 1500); };
        const select = () => { getSelection().selectAllChildren(byId('command')); };
        if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select); else select();
        break;
      }
    }
  });
  addEventListener('hashchange', () => { readHash(); apply(); });
  dark.addEventListener('change', drawAll);
  let lastWidth = document.documentElement.clientWidth, pending = 0;
  addEventListener('resize', () => {
    if (document.documentElement.clientWidth === lastWidth) return;
    lastWidth = document.documentElement.clientWidth;
    clearTimeout(pending);
    pending = setTimeout(drawAll, 80);
  });
  addEventListener('beforeprint', () => { printing = true; drawAll(); });
  addEventListener('afterprint', () => { printing = false; drawAll(); });

  readHash();
  apply();
  window.fathomReport = { plain, time, percent, svgOf, csvOf, figures: data.figures };
  document.documentElement.dataset.ready = 'true';
})();
