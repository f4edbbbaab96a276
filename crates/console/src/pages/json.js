// JSON as it was sent: JSON.parse makes doubles of all numbers, in which 139830192000000001 ends with 000000, and puts members whose names
// are numbers in front of the others.

/** The members of an object in the order in which they came: pairs of a name and the text of its value. The text is JSON. */
export function members(text) {
  const found = [];
  let [depth, quoted, from, name] = [0, false, 0, undefined];
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (quoted) {
      if (c === "\\") at += 1;
      else if (c === '"') quoted = false;
      continue;
    }
    if (c === '"') quoted = true;
    else if (c === "{" || c === "[") { depth += 1; if (depth === 1) from = at + 1; }
    else if (c === ":" && depth === 1 && name === undefined) { name = JSON.parse(text.slice(from, at)); from = at + 1; }
    else if (depth === 1 && (c === "," || c === "}") && name !== undefined) {
      found.push([name, text.slice(from, at).trim()]);
      name = undefined;
      from = at + 1;
      if (c === "}") depth -= 1;
    } else if (c === "}" || c === "]") depth -= 1;
  }
  return found;
}

/** The texts of an array's elements. */
export function elements(text) {
  const inner = text.trim().slice(1, -1);
  const found = [];
  let [depth, quoted, from] = [0, false, 0];
  for (let at = 0; at < inner.length; at += 1) {
    const c = inner[at];
    if (quoted) {
      if (c === "\\") at += 1;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === "{" || c === "[") depth += 1;
    else if (c === "}" || c === "]") depth -= 1;
    else if (c === "," && depth === 0) { found.push(inner.slice(from, at)); from = at + 1; }
  }
  if (inner.trim()) found.push(inner.slice(from));
  return found;
}
