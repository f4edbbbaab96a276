// What the service is asked, and told to do. The token is kept for this tab only, and shown by this page alone.

const KEY = "campanile-token";
let asks = null;
let ruled = false;
let changes = false;

export const token = () => sessionStorage.getItem(KEY);
export function setToken(text) { if (text) sessionStorage.setItem(KEY, text); else sessionStorage.removeItem(KEY); }
/** Where there are rules of access, they decide who may what, with a token or without. */
export function setRuled(has) { ruled = has; }
/** Whether anything can be changed over HTTP: without a token's file and without rules nothing can, and no button says otherwise. */
export function setCanChange(can) { changes = can; }
export const canChange = () => changes;
/** Who asks the person for the token: a function that promises it, or null. */
export function onTokenNeeded(ask) { asks = ask; }

function headers(more = {}) {
  return token() ? { Authorization: `Bearer ${token()}`, ...more } : more;
}

async function answered(answer, read = (answer) => answer.json().catch(() => ({}))) {
  if (answer.ok) return read(answer);
  const told = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(told.error ?? `status ${answer.status}`), { status: answer.status });
}

async function ask(path, parameters, read) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  const answer = await fetch(`/api/v1/${path}?${query}`, { headers: headers() });
  if (answer.status === 401 && await asks?.("To look at this service from another host")) return ask(path, parameters, read);
  return answered(answer, read);
}

export const get = (path, parameters = {}) => ask(path, parameters);
/** The same as it came, in all digits. */
export const text = (path, parameters = {}) => ask(path, parameters, (answer) => answer.text());

/** What is written already goes as it is. */
export async function post(path, body) {
  if (!token() && !ruled && !await asks?.("To change something")) throw new Error("nothing was changed: that needs the token");
  const answer = await fetch(`/api/v1/${path}`, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: typeof body === "string" ? body : JSON.stringify(body) });
  // Whoever may not do it without a token may with one.
  if (answer.status === 403 && ruled && !token() && await asks?.("The rules of access do not allow it to this browser. To change something")) return post(path, body);
  if (answer.status === 401) {
    setToken(null);
    if (await asks?.("That token was refused. To change something")) return post(path, body);
  }
  return answered(answer);
}

/** Reads server-sent events until it is aborted; they are fetched, so that the token goes with the request. */
export async function stream(path, parameters, signal, onevent) {
  const answer = await fetch(`/api/v1/${path}?${new URLSearchParams(parameters)}`, { headers: headers(), signal });
  if (answer.status === 401 && await asks?.("To look at this service from another host")) return stream(path, parameters, signal, onevent);
  if (!answer.ok) await answered(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const lines = rest.slice(0, end).split("\n");
      rest = rest.slice(end + 2);
      const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (field("data")) onevent(field("event"), JSON.parse(field("data")), field("data"));
    }
  }
}
