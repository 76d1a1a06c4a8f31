// Building elements. Text is always a text node, so nothing that a job says of itself can become markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `props`: class, on (event -> listener), dataset, the rest are attributes (false: left out). */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "dataset") {
      Object.assign(element.dataset, value);
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  append(element, children);
  return element;
}

/** Add children: nodes, texts, numbers, lists of these; nothing for null and false. */
export function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace what is inside, unless it would be the same; the focus stays in its place. */
export function fill(element, ...children) {
  const fresh = element.cloneNode(false);
  append(fresh, children);
  if (element.innerHTML === fresh.innerHTML) return element;
  const way = wayTo(element, document.activeElement);
  element.replaceChildren(...fresh.childNodes);
  if (way) focusOn(way.reduce((node, place) => node?.childNodes[place], element));
  return element;
}

/** Give an element the focus; where that can't be, the heading of the page, so that the keyboard is never nowhere. */
export function focusOn(element) {
  if (element?.isConnected) element.focus?.();
  if (document.activeElement === document.body) document.querySelector("main h1")?.focus({ preventScroll: true });
}

function wayTo(root, node) {
  if (!root.contains(node) || node === root) return null;
  const way = [];
  for (let at = node; at !== root; at = at.parentNode) way.unshift([...at.parentNode.childNodes].indexOf(at));
  return way;
}

/** Text that is read aloud and not shown. */
export function spoken(text) {
  return h("span", { class: "spoken" }, text);
}
