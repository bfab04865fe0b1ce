"use strict";
// Everything from outside is put in as text, never as markup. The session's number is kept for this
// tab only, and sent by this script only: there is no cookie that another page could use.
const at = (id) => document.getElementById(id);
const KEY = "smsc-session";
const SERIES = { accepted: "accepted", delivered: "delivered to mobiles", deliver_sm: "to applications" };
let session = sessionStorage.getItem(KEY);
let timer = 0;
let waits = false;

function made(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  if (className) element.className = className;
  return element;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "compact" });
const number = (value) => (value === null || value === undefined ? "–" : Math.abs(value) < 100000 ? whole.format(value) : short.format(value));
const rate = (value) => (value > 0 && value < 10 ? value.toFixed(1) : number(value));
const ms = (value) => (value === null ? "–" : value >= 10000 ? `${number(value / 1000)} s` : `${value < 10 ? value.toFixed(1) : number(value)} ms`);
function octets(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}
function span(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} days`;
}
const moment = (text) => (text ? new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "–");

async function ask(path, body) {
  const headers = { Authorization: `Bearer ${session}` };
  const options = { headers, credentials: "omit", cache: "no-store" };
  if (body) {
    headers["Content-Type"] = "application/json";
    headers["X-Smsc"] = "1";
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  }
  const answer = await fetch(`api/${path}`, options);
  const value = await answer.json().catch(() => ({}));
  if (answer.ok) return value;
  const error = new Error(value.error ? value.error.message : `answer ${answer.status}`);
  error.status = answer.status;
  throw error;
}

let noticed = 0;
function notice(text) {
  at("notice").textContent = text;
  at("notice").hidden = false;
  clearTimeout(noticed);
  noticed = setTimeout(() => { at("notice").hidden = true; }, 5000);
}

function show(signedIn) {
  at("door").hidden = signedIn;
  at("inside").hidden = at("sign-out").hidden = at("pulse").hidden = !signedIn;
  document.documentElement.dataset.ready = "true";
  if (!signedIn) {
    at("about").textContent = "";
    at("password").focus();
  }
}

function leave() {
  session = null;
  sessionStorage.removeItem(KEY);
  clearTimeout(timer);
  for (const id of ["tiles", "chart", "found", "routes", "accounts", "sessions", "store"]) at(id).replaceChildren();
  show(false);
}

at("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = at("sign-in").querySelector("button");
  button.disabled = true;
  at("refusal").textContent = "";
  try {
    session = (await ask("sign-in", { password: at("password").value })).session;
    sessionStorage.setItem(KEY, session);
    at("password").value = "";
    show(true);
    refresh();
  } catch (error) {
    session = null;
    at("refusal").textContent = error.status === 401 ? "This is not the password." : error.message;
    at("password").select();
  } finally {
    button.disabled = false;
  }
});

at("sign-out").addEventListener("click", () => {
  ask("sign-out", {}).catch(() => {});
  leave();
});

function tile(label, value, note, warns) {
  const element = made("div", undefined, warns ? "tile warn" : "tile");
  element.append(made("div", label, "label"), made("div", value, "value"), made("div", note, "note"));
  return element;
}

/// A table whose rows are cards where there is no room. A cell is a text or an element; `numbers`
/// are the columns on the right, `wide` those that may be long.
function table(heads, rows, numbers, wide, empty) {
  if (rows.length === 0) return made("p", empty, "empty");
  const element = made("table", undefined, "cards");
  const head = element.createTHead().insertRow();
  heads.forEach((name, column) => head.append(made("th", name, numbers.includes(column) ? "number" : "")));
  const body = element.createTBody();
  for (const cells of rows) {
    const row = body.insertRow();
    cells.forEach((cell, column) => {
      const data = row.insertCell();
      if (numbers.includes(column)) data.classList.add("number");
      if (wide.includes(column)) data.classList.add("wide");
      if (heads[column]) data.dataset.label = heads[column];
      const inner = made("span");
      inner.append(cell);
      data.append(inner);
    });
  }
  return element;
}

function filled(count, most) {
  const cell = made("span", `${number(count)} / ${number(most)}`);
  const bar = made("span", undefined, count >= most ? "bar full" : "bar");
  const inner = made("i");
  inner.style.width = `${Math.min(100, most > 0 ? (100 * count) / most : 0)}%`;
  bar.append(inner);
  cell.append(bar);
  return cell;
}

const SVG = "http://www.w3.org/2000/svg";
function drawn(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/// The next number of 1, 2, 5 times a power of ten.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((limit) => limit >= value);
}

function chart(rates) {
  const box = at("chart");
  const [width, height, left, bottom, top] = [Math.max(box.clientWidth, 260), 180, 46, 20, 8];
  const most = ceiling(Math.max(...Object.keys(SERIES).flatMap((name) => rates[name]), 1));
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const said = Object.entries(SERIES).map(([name, words]) => `${words} ${rate(rates[name].at(-1) ?? 0)} a second`);
  svg.setAttribute("aria-label", `Messages a second: ${said.join(", ")}`);
  const y = (value) => top + (height - top - bottom) * (1 - value / most);
  const x = (ago) => width - 4 - ((width - left - 4) * ago) / 120;
  for (const part of [0, 0.5, 1]) {
    svg.append(drawn("line", { class: "grid", x1: left, x2: width - 4, y1: y(part * most), y2: y(part * most) }));
    const words = part * most >= 1 || part === 0 ? number(part * most) : String(part * most);
    svg.append(drawn("text", { x: left - 8, y: y(part * most) + 4, "text-anchor": "end" }, words));
  }
  for (const ago of [120, 60, 0]) {
    const anchor = ago === 120 ? "start" : ago === 0 ? "end" : "middle";
    svg.append(drawn("text", { x: x(ago), y: height - 4, "text-anchor": anchor }, ago === 0 ? "now" : `${ago} s ago`));
  }
  for (const name of Object.keys(SERIES)) {
    const values = rates[name];
    const line = values.map((value, place) => `${place ? "L" : "M"}${x(values.length - 1 - place).toFixed(1)} ${y(value).toFixed(1)}`);
    svg.append(drawn("path", { class: name, d: line.join("") }));
  }
  box.replaceChildren(svg);
  at("legend").replaceChildren(...Object.entries(SERIES).map(([name, words]) => {
    const item = made("span", undefined, name);
    item.append(made("b", `${words} ${rate(rates[name].at(-1) ?? 0)}/s`));
    return item;
  }));
}

/// What is drawn anew each second must not take a button from under the pointer or the focus.
const drawnAs = {};
let pressed = null;
document.addEventListener("pointerdown", (event) => { pressed = event.target; });
for (const end of ["pointerup", "pointercancel"]) {
  // The click comes after it.
  document.addEventListener(end, () => setTimeout(() => { pressed = null; }, 0));
}
function put(id, key, make) {
  const text = JSON.stringify(key);
  if (pressed && at(id).contains(pressed)) return;
  if (drawnAs[id] === text && at(id).firstChild) return;
  const focus = document.activeElement;
  const label = focus && at(id).contains(focus) ? focus.getAttribute("aria-label") : null;
  drawnAs[id] = text;
  at(id).replaceChildren(...make());
  if (label) [...at(id).querySelectorAll("button")].find((button) => button.getAttribute("aria-label") === label)?.focus();
}

function draw(state) {
  document.title = `${state.name} · smsc`;
  at("name").textContent = state.name;
  at("about").textContent = `smsc ${state.version} on ${state.engine}, up ${span(state.uptime_s)}`;
  const last = (name) => state.rates[name].at(-1) ?? 0;
  const queued = state.routes.reduce((sum, route) => sum + route.queued, 0);
  const waiting = state.accounts.reduce((sum, account) => sum + account.queued, 0);
  const { submit, delivery } = state.latency_ms;
  const totals = state.totals;
  at("tiles").replaceChildren(
    tile("Accepted", `${rate(last("accepted"))}/s`, `${number(totals.accepted)} in all`),
    tile("Delivered", `${rate(last("delivered"))}/s`, `${number(totals.delivered)} to mobiles`),
    tile("Refused", `${rate(last("refused"))}/s`, `${number(totals.throttled)} of ${number(totals.refused)} throttled`, last("refused") > 0),
    tile("Answer, p99", ms(submit.p99), `half within ${ms(submit.p50)}`),
    tile("Delivery, p99", ms(delivery.p99), `half within ${ms(delivery.p50)}`),
    tile("Queued", number(queued + waiting), `${number(waiting)} of them for applications`),
  );
  chart(state.rates);
  put("routes", state.routes, () => [table(
    ["Route", "Queued", "Ready", "In flight", "To be tried again"],
    state.routes.map((route) => [route.name, number(route.queued), number(route.ready), number(route.in_flight), number(route.waiting)]),
    [1, 2, 3, 4], [], "not counted yet",
  )]);
  at("routes-age").textContent = state.routes_age_s > 5 ? `counted ${span(state.routes_age_s)} ago: long queues are counted less often` : "";
  at("store").replaceChildren(...[
    ["Engine", state.engine],
    ["Rows in memory", octets(state.store.memory)],
    ["Process", octets(state.process.resident)],
    ["Descriptors", number(state.process.descriptors)],
    ["Log written", octets(state.store.log)],
    ["A flush", state.store.flush_ms === null ? "–" : `${ms(state.store.flush_ms)}, ${number(state.store.flushes)} in all`],
    ["Archived", number(totals.archived)],
  ].filter(([, value]) => value !== "–").flatMap(([name, value]) => [made("dt", name), made("dd", value)]));
  put("accounts", state.accounts, () => [table(
    ["system_id", "Number", "Sessions", "Waits for it", "In flight", "Throttled"],
    state.accounts.map((account) => [
      account.system_id, number(account.number), `${number(account.sessions)} / ${number(account.sessions_max)}`,
      filled(account.queued, account.queue_max), number(account.in_flight), number(account.throttled),
    ]),
    [1, 2, 4, 5], [], "no accounts",
  )]);
  at("sessions-count").textContent = state.sessions.length < state.sessions_bound
    ? `${number(state.sessions.length)} of ${number(state.sessions_bound)}` : number(state.sessions_bound);
  const shown = state.sessions.map((one) => ({ ...one, for: span(one.seconds), seconds: 0 }));
  put("sessions", shown, () => [table(
    ["system_id", "As", "From", "For", "Submitted", "Under way", "To it", ""],
    shown.map((one) => {
      const button = made("button", "End", "danger");
      button.type = "button";
      button.setAttribute("aria-label", `End session ${one.session} of ${one.system_id}`);
      button.addEventListener("click", () => kick(one));
      return [one.system_id, one.as, one.peer, one.for, number(one.submitted),
        `${number(one.submissions)} / ${number(one.window)}`, number(one.deliveries), button];
    }),
    [4, 5, 6, 7], [2], state.sessions_bound ? "none of this system_id" : "nobody is bound",
  )]);
}

async function refresh() {
  clearTimeout(timer);
  if (!session || waits) return;
  waits = true;
  const own = session;
  try {
    const filter = at("filter").value.trim();
    const state = await ask(`state?system_id=${encodeURIComponent(filter)}`);
    // Whoever has signed out meanwhile leaves nothing behind.
    if (session !== own) return;
    draw(state);
    at("pulse").textContent = "live";
    at("pulse").classList.remove("lost");
  } catch (error) {
    if (session !== own) return;
    if (error.status === 401) {
      leave();
    } else {
      at("pulse").textContent = error.status ? error.message : "the centre does not answer";
      at("pulse").classList.add("lost");
    }
  } finally {
    waits = false;
    if (session && !document.hidden) timer = setTimeout(refresh, 1000);
  }
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
at("filter").addEventListener("input", refresh);

function confirmed(title, text, yes) {
  at("confirm-title").textContent = title;
  at("confirm-text").textContent = text;
  at("confirm-yes").textContent = yes;
  const dialog = at("confirm");
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => {
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
  });
}

async function kick(one) {
  const text = `${one.system_id} is bound as ${one.as} from ${one.peer}. It gets an unbind; what it was sent and has not answered is delivered again. It may bind again.`;
  if (!(await confirmed(`End session ${one.session}?`, text, "End it"))) return;
  try {
    await ask("kick", { session: one.session });
    notice(`Session ${one.session} is ended.`);
  } catch (error) {
    notice(error.message);
  }
  refresh();
}

const STATES = { delivered: "good", undeliverable: "bad", expired: "bad", deleted: "bad", enroute: "busy", scheduled: "busy" };
function message(one) {
  const element = made("article", undefined, "message");
  const head = made("div", undefined, "head");
  head.append(made("strong", `#${one.id}`), made("span", one.state, `badge ${STATES[one.state] ?? ""}`));
  if (one.is_receipt) head.append(made("span", "receipt", "badge"));
  head.append(made("span", `${one.from} → ${one.to}`), made("span", one.where === "archive" ? "archived" : "", "soft"));
  if (!one.final && !one.is_receipt) {
    const button = made("button", "Take back", "danger");
    button.addEventListener("click", async () => {
      if (!(await confirmed(`Take message ${one.id} back?`, `It is from ${one.from} to ${one.to} and has not been delivered. Its application gets a receipt, if it asked for one.`, "Take it back"))) return;
      try {
        await ask("cancel", { id: one.id });
        notice(`Message ${one.id} is taken back.`);
      } catch (error) {
        notice(error.message);
      }
      find();
    });
    head.append(button);
  }
  element.append(head);
  if (one.text !== undefined) element.append(made("div", one.text, "said"));
  const list = made("dl");
  const facts = [["Account", one.system_id], ["Accepted", moment(one.accepted)], ["Deliver at", moment(one.deliver_at)],
    [one.final ? "Ended" : "Expires", moment(one.final ? one.done : one.expires)], ["Attempts", number(one.attempts)],
    ["Last error", one.error ? String(one.error) : "none"], ["Octets", number(one.octets)]];
  for (const [name, value] of facts) if (value !== "–") list.append(made("dt", name), made("dd", value));
  element.append(list);
  return element;
}

async function find() {
  const wanted = at("wanted").value.trim();
  if (!wanted) return at("found").replaceChildren();
  const query = wanted.startsWith("#") ? `id=${encodeURIComponent(wanted.slice(1))}` : `to=${encodeURIComponent(wanted)}`;
  const own = session;
  try {
    const { messages, max } = await ask(`messages?${query}`);
    if (session !== own) return;
    const note = messages.length === 0 ? "There is no such message, neither waiting nor in the part of the archive that is searched."
      : messages.length === max ? `The first ${max}: what waits, then the latest that were archived.` : null;
    at("found").replaceChildren(...messages.map(message), ...(note ? [made("p", note, "soft small")] : []));
  } catch (error) {
    if (session !== own) return;
    if (error.status === 401) leave();
    else at("found").replaceChildren(made("p", error.message, "refusal"));
  }
}
at("find").addEventListener("submit", (event) => { event.preventDefault(); find(); });

show(Boolean(session));
if (session) refresh();
