// JSON as text. JSON.parse makes 12345678901234567890 another number and 1.0 a 1; a payload has to stay what it is, so
// it is cut out of the answer's text, laid out and packed without a look at its values.

const BLANK = /\s/;
const SIGNS = "{}[]:,";

/** The tokens of a valid JSON text: signs, strings with their quotes, and numbers and words as they are written. */
function tokens(text) {
  const found = [];
  for (let at = 0; at < text.length; ) {
    let end = at + 1;
    if (BLANK.test(text[at])) {
      at = end;
      continue;
    }
    if (text[at] === '"') {
      while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
      end += 1;
    } else if (!SIGNS.includes(text[at])) {
      while (end < text.length && !SIGNS.includes(text[end]) && !BLANK.test(text[end])) end += 1;
    }
    found.push({ text: text.slice(at, end), at, end });
    at = end;
  }
  return found;
}

/** The text of a member of the object in `text`, as it is written there; null if it has none of that name. */
export function memberText(text, name) {
  const all = tokens(text);
  let depth = 0;
  for (let place = 0; place < all.length; place++) {
    const token = all[place].text;
    if (depth === 1 && all[place + 1]?.text === ":" && JSON.parse(token) === name) return valueText(text, all, place + 2);
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
  }
  return null;
}

function valueText(text, all, first) {
  let depth = 0;
  for (let place = first; ; place++) {
    const { text: token, end } = all[place];
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if (depth === 0) return text.slice(all[first].at, end);
  }
}

/** The same value with a line for each member. */
export function laidOut(text) {
  const all = tokens(text).map((one) => one.text);
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return all
    .map((token, place) => {
      const isEmpty = (all[place + 1] === "}" && token === "{") || (all[place + 1] === "]" && token === "[");
      const wasEmpty = (all[place - 1] === "{" && token === "}") || (all[place - 1] === "[" && token === "]");
      if (token === "{" || token === "[") {
        depth += 1;
        return isEmpty ? token : token + line();
      }
      if (token === "}" || token === "]") {
        depth -= 1;
        return wasEmpty ? token : line() + token;
      }
      return token === "," ? token + line() : token === ":" ? ": " : token;
    })
    .join("");
}

/** The same value without blanks between. Throws what JSON.parse throws if it is no JSON. */
export function packed(text) {
  JSON.parse(text);
  return tokens(text).map((one) => one.text).join("");
}

/** The JSON of an object, with members whose values are texts already. */
export function withTexts(members, texts) {
  const parts = [...Object.entries(members).map(([name, value]) => [name, JSON.stringify(value)]), ...Object.entries(texts)];
  return `{${parts.filter(([, text]) => text !== undefined).map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`;
}
