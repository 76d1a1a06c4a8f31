// Questions before something is done, and short notes after it.

import { append, focusOn, h } from "./dom.js";

/**
 * Ask in a dialog; resolves to true if it was confirmed. `fields` is a node that is shown above the buttons.
 * The dialog element brings the focus inside and keeps it there; it goes back to where it was.
 */
export function confirmed({ title, text, fields, action = "Do it", dangerous = false, check }) {
  const opener = document.activeElement;
  return new Promise((resolve) => {
    const problem = h("p", { class: "problem", role: "alert" });
    const dialog = h(
      "dialog",
      { "aria-labelledby": "dialog-title" },
      h(
        "form",
        { method: "dialog", on: { submit: (event) => decide(event) } },
        h("h2", { id: "dialog-title" }, title),
        text && h("p", {}, text),
        fields,
        problem,
        h(
          "div",
          { class: "buttons" },
          h("button", { type: "button", class: "plain", on: { click: () => dialog.close() } }, "Leave it"),
          h("button", { type: "submit", class: dangerous ? "danger" : "primary" }, action),
        ),
      ),
    );
    let answer = false;
    const decide = (event) => {
      const wrong = check?.();
      if (wrong) {
        event.preventDefault();
        problem.textContent = wrong;
        return;
      }
      answer = true;
    };
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (document.activeElement === document.body) focusOn(likeness(opener));
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** What stands for an element of the page now: the page may have been made anew meanwhile. */
function likeness(element) {
  if (element.isConnected) return element;
  return [...document.querySelectorAll(`main ${element.localName}`)].find((one) => one.textContent === element.textContent);
}

/**
 * A note in the corner; `undo` puts a button into it. It stays long enough to be read, and longer with a button, but
 * never beyond its page (where an act leads to another one, go there first) or the next act; what is bad stays until
 * it is closed.
 */
export function note(text, { undo, bad = false } = {}) {
  const box = document.getElementById("notes");
  const item = h("div", { class: bad ? "note bad" : "note", dataset: { place: location.hash } }, h("span", {}, text));
  const remove = () => item.remove();
  if (undo) {
    const act = async () => {
      if (await attempt(undo)) note("It is undone.");
    };
    append(item, h("button", { type: "button", class: "plain", on: { click: act } }, "Undo"));
  }
  append(item, h("button", { type: "button", class: "close", "aria-label": "Close", on: { click: remove } }, "×"));
  if (bad) [...box.children].find((one) => one.textContent === item.textContent)?.remove();
  box.append(item);
  if (!bad) setTimeout(remove, undo ? 15_000 : 6000);
}

/** An act begins: what was said of earlier ones is no longer true, or can no longer be undone. */
export function clearNotes() {
  for (const item of passing()) item.remove();
}

addEventListener("hashchange", () => {
  for (const item of passing()) if (item.dataset.place !== location.hash) item.remove();
});

const passing = () => document.querySelectorAll("#notes .note:not(.bad)");

/** Do it, and say what went wrong if it does. Gives whether it worked. */
export async function attempt(action) {
  clearNotes();
  try {
    await action();
    return true;
  } catch (error) {
    if (error.name === "AbortError") return false;
    const fields = (error.errors || []).map((one) => `${one.field}: ${one.message}`).join("; ");
    note(fields || error.message, { bad: true });
    return false;
  }
}
