"use strict";
// Everything is put in as text, never as markup.
const at = (id) => document.getElementById(id);
function made(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

/// Words with `names` in them.
function worded(text) {
  const element = made("span");
  text.split("`").forEach((part, place) => element.append(place % 2 ? made("code", part) : part));
  return element;
}

function resolved(description, node) {
  if (!node || !node.$ref) return node || {};
  return node.$ref.slice(2).split("/").reduce((part, name) => part[name], description);
}

function table(heads, rows) {
  const scroll = made("div", undefined, "scroll");
  const element = made("table");
  const head = element.createTHead().insertRow();
  for (const name of heads) head.append(made("th", name));
  const body = element.createTBody();
  for (const cells of rows) {
    const row = body.insertRow();
    cells.forEach((cell, number) => {
      const data = row.insertCell();
      data.append(number === 0 ? made("code", cell) : worded(cell));
    });
  }
  scroll.append(element);
  return scroll;
}

function type(schema) {
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.oneOf) return schema.oneOf.map(type).join(" or ");
  const range = schema.minimum === undefined && schema.maximum === undefined ? "" :
    ` ${schema.minimum ?? ""}–${schema.maximum ?? ""}`;
  return `${schema.type ?? ""}${range}`;
}

function operation(description, method, path, details) {
  const section = made("section", undefined, "card operation");
  const title = made("h2");
  title.append(made("span", method.toUpperCase(), "method"), made("code", path), made("span", details.summary));
  section.append(title);
  const body = details.requestBody && details.requestBody.content["application/json"];
  if (body) {
    const schema = resolved(description, body.schema);
    section.append(table(["field", "type", ""], Object.entries(schema.properties).map(([name, field]) =>
      [name + (schema.required.includes(name) ? " *" : ""), type(field), field.description ?? ""])));
    section.append(made("p", "for example", "soft"), made("pre", JSON.stringify(body.example, null, 2)));
  }
  section.append(table(["answer", ""], Object.entries(details.responses).map(([code, response]) =>
    [code, resolved(description, response).description])));
  return section;
}

let last = null;
async function ask(method, path, body) {
  const octets = new TextEncoder().encode(`${at("system_id").value}:${at("password").value}`);
  const headers = { Authorization: `Basic ${btoa(String.fromCharCode(...octets))}` };
  if (body) headers["Content-Type"] = "application/json";
  const shown = `${method} ${path}` + (body ? `\n\n${JSON.stringify(body, null, 2)}` : "");
  at("request").hidden = at("answer").hidden = false;
  at("request").textContent = shown;
  at("answer").textContent = "…";
  try {
    const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), credentials: "omit" });
    const value = await answer.json();
    at("answer").textContent = `${answer.status}\n\n${JSON.stringify(value, null, 2)}`;
    return answer.ok ? value : null;
  } catch (error) {
    at("answer").textContent = `no answer: ${error.message}`;
    return null;
  }
}

at("try").addEventListener("submit", async (event) => {
  event.preventDefault();
  const value = await ask("POST", "v1/messages", {
    from: at("from").value, to: at("to").value.trim(), text: at("text").value,
  });
  if (value) last = value.id;
  at("query").disabled = at("cancel").disabled = last === null;
});
at("query").addEventListener("click", () => ask("GET", `v1/messages/${last}`));
at("cancel").addEventListener("click", () => ask("DELETE", `v1/messages/${last}`));

fetch("openapi.json").then((answer) => answer.json()).then((description) => {
  at("about").textContent = description.info.description;
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const method of ["post", "get", "delete"]) {
      if (methods[method]) at("operations").append(operation(description, method, path, methods[method]));
    }
  }
  document.documentElement.dataset.ready = "true";
});
