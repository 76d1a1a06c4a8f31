// Questions before something is done, and short notes after it.

import { append, h } from "./dom.js";

/**
 * Ask in a dialog; resolves to true if it was confirmed. `fields` is a node that is shown above the buttons.
 * The dialog element brings the focus inside, keeps it there, and gives it back.
 */
export function confirmed({ title, text, fields, action = "Do it", dangerous = false, check }) {
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
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A note in the corner; `undo` puts a button into it. It stays long enough to be read, and longer with a button. */
export function note(text, { undo, bad = false } = {}) {
  const box = document.getElementById("notes");
  const item = h("div", { class: bad ? "note bad" : "note" }, h("span", {}, text));
  const remove = () => item.remove();
  if (undo) {
    const act = async () => {
      remove();
      await attempt(undo);
    };
    append(item, h("button", { type: "button", class: "plain", on: { click: act } }, "Undo"));
  }
  append(item, h("button", { type: "button", class: "close", "aria-label": "Close", on: { click: remove } }, "×"));
  box.append(item);
  setTimeout(remove, undo || bad ? 15_000 : 6000);
}

/** Do it, and say what went wrong if it does. Gives whether it worked. */
export async function attempt(action) {
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
