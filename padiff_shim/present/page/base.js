// What all parts use: elements, numbers as text, and the messages between the parts.

const $ = (id) => document.getElementById(id);

// As `pieces` in text.py: a word's parts behind / . _ and the like; a line's number stays with the end of its file's name.
const PARTS = /[^/\\_,;|=-]+\.\w+:\d+\S*$|[^/\\.,;|=_-]*(?:[/\\.,;|=_-]+|$)/g;
const WHOLE = 24;

/** Text as nodes, with places at which long words may be broken. */
function breakable(text) {
  if (!/\S{25}|-\S/.test(text)) return [text];
  const found = [""];
  for (const word of text.match(/\s+|\S+/g)) {
    if (word.length <= WHOLE || [...word].length <= WHOLE) {
      found[found.length - 1] += word;
      continue;
    }
    for (const [at, part] of word.match(PARTS).filter(Boolean).entries()) {
      const signs = [...part];
      const first = signs.splice(0, signs.length % WHOLE || WHOLE).join("");
      if (at) found.push(first);
      else found[found.length - 1] += first;
      while (signs.length) found.push(signs.splice(0, WHOLE).join(""));
    }
  }
  return found.flatMap((piece, at) => (at ? [document.createElement("wbr"), ...kept(piece)] : kept(piece)));
}

/** Browsers break words at a hyphen, in the middle of 2e-06 and --quiet: not these. */
function kept(piece) {
  return piece.split(/(\S*-\S+)/).map((one, at) => {
    if (!(at % 2)) return one;
    const span = document.createElement("span");
    span.className = "keep";
    span.textContent = one;
    return span;
  });
}

function nodes(children) {
  const given = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return given.flatMap((child) => (typeof child === "string" ? breakable(child) : [child]));
}

/** An element with attributes and children. Strings become text, never markup. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

const NONFINITE = { nan: NaN, inf: Infinity, "-inf": -Infinity };

/** A figure as a number: undefined if there is none. JSON has no NaN, so the log writes "nan", "inf" and "-inf". */
function number(value) {
  if (typeof value === "number") return value;
  return typeof value === "string" && value in NONFINITE ? NONFINITE[value] : undefined;
}

/** A figure as text with three significant digits (or `digits`). */
function figure(value, digits = 3) {
  const x = number(value);
  if (x === undefined) return value === null || value === undefined ? "–" : String(value);
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  if (Number.isInteger(x) && Math.abs(x) < 1e5) return grouped(x);
  const size = Math.abs(x);
  if (size >= 1e-3 && size < 1e5) return String(Number(x.toPrecision(digits))).replace("-", "−");
  return x.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
}

/** A ratio; that far out its digits say no more. */
function capped(ratio) {
  return ratio > 1e6 && ratio < Infinity ? "> 10^6" : figure(ratio);
}

/** A whole number with thin spaces between thousands. */
function grouped(x) {
  return String(x).replace("-", "−").replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** A sentence in the reader's language, a string or a template: D.messages has the translations of a page that is not English. */
function tr(sentence, ...values) {
  const message = typeof sentence === "string" ? sentence : sentence.reduce((text, part, place) => `${text}{${place - 1}}${part}`);
  const text = D.messages[message] || message;
  return values.length ? text.replace(/\{(\d+)\}/g, (_, place) => values[place]) : text;
}

function count(n, noun) {
  return `${grouped(n)} ${D.nouns[noun] || (n === 1 ? noun : noun + "s")}`;
}

function percent(part, whole) {
  if (!whole) return "–";
  if (part === whole) return "100 %";
  const share = (100 * part) / whole;
  if (share > 99.9) return tr("more than 99.9 %");
  return share < 0.1 && part > 0 ? tr("less than 0.1 %") : `${share.toFixed(1)} %`;
}

function shape(dims) {
  return Array.isArray(dims) ? `[${dims.join(", ")}]` : "";
}

const listeners = {};
function on(name, listener) {
  (listeners[name] = listeners[name] || []).push(listener);
}
function tell(name, value) {
  for (const listener of listeners[name] || []) listener(value);
}

/** Call `draw` once before the next frame, however often asked. */
function eachFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

/** The square that marks a verdict; its word always stands beside it. */
function mark(verdict) {
  return h("span", { class: "mark v-" + verdict, "aria-hidden": "true" });
}

function badge(verdict) {
  return h("span", { class: "badge" }, mark(verdict), verdict);
}

async function copyText(text, button) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    const area = h("textarea", { class: "offscreen", "aria-hidden": "true" }, text);
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  const before = button.dataset.label || (button.dataset.label = button.textContent);
  button.textContent = done ? tr("Copied") : tr("Select and copy it");
  setTimeout(() => (button.textContent = before), 1600);
}
