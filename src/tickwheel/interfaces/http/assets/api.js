// Calls of the API. The token lives in this tab only; it is never put into a URL or a cookie.

import { answered, asked, heard, isSilent, missed, nextHeard, whileHeard } from "./contact.js";
import { memberText } from "./json_text.js";

const KEY = "tickwheel.token";
const BASE = new URL(".", document.baseURI);
const AGAIN_MS = 1000;
const PROXY_FAILURES = [502, 504]; // the server itself never answers so
const state = { token: sessionStorage.getItem(KEY) || "", askForToken: null };

/** What the server refused, or could not be asked (status 0). */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.code = problem.code || "";
    this.errors = problem.errors || [];
  }
}

/** Called when a token is needed; gives a promise of one. */
export function onTokenNeeded(ask) {
  state.askForToken = ask;
}

export function forgetToken() {
  state.token = "";
  sessionStorage.removeItem(KEY);
}

export const hasToken = () => state.token !== "";

function keepToken(token) {
  state.token = token;
  sessionStorage.setItem(KEY, token);
}

export function address(path, query) {
  const url = new URL(path.replace(/^\//, ""), BASE);
  for (const [name, value] of Object.entries(query || {})) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

async function send(method, path, { query, body, headers, signal } = {}) {
  const all = { ...headers };
  if (state.token) all.authorization = `Bearer ${state.token}`;
  if (body !== undefined) all["content-type"] = "application/json";
  const options = { method, headers: all, signal, cache: "no-store", credentials: "omit", redirect: "error" };
  if (method === "GET") options.signal = AbortSignal.any([whileHeard(), signal].filter(Boolean));
  if (body !== undefined) options.body = typeof body === "string" ? body : JSON.stringify(body);
  let response;
  const owed = asked();
  try {
    response = await fetch(address(path, query), options);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw unreachable();
  } finally {
    answered(owed);
  }
  if (PROXY_FAILURES.includes(response.status)) {
    response.body?.cancel();
    throw unreachable();
  }
  heard();
  if (response.ok) return response;
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    problem = { detail: `The server answered ${response.status} without a reason.` };
  }
  throw new ApiError(response.status, problem);
}

function unreachable() {
  missed();
  return new ApiError(0, { code: "unreachable", detail: "The server does not answer." });
}

let asking = null;

async function sendKnown(method, path, options) {
  for (;;) {
    try {
      return await send(method, path, options);
    } catch (error) {
      if (error.status !== 401 || !state.askForToken) throw error;
      asking ||= state.askForToken(state.token ? error.message : "").finally(() => {
        asking = null;
      });
      keepToken(await asking);
    }
  }
}

const texts = new WeakMap();

/** The JSON text of a member of an answer as the server wrote it: its numbers are exact. Null if it has none. */
export function textOf(body, name) {
  const text = memberText(texts.get(body), name);
  return text === "null" ? null : text;
}

/** The JSON of an answer (null if it has none); `withHeaders` gives [body, headers]. */
export async function call(method, path, options = {}) {
  const response = await sendKnown(method, path, options);
  const text = await response.text().catch((error) => {
    if (options.signal?.aborted) throw error;
    throw unreachable(); // it broke off
  });
  const body = text ? JSON.parse(text) : null;
  if (body !== null && typeof body === "object") texts.set(body, text);
  return options.withHeaders ? [body, response.headers] : body;
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body, query) => call("POST", path, { body, query });

/** Follow server-sent events until `signal` says stop; `onError` is told of what the server says instead of them. */
export async function follow(path, onEvent, onError, signal) {
  while (!signal.aborted) {
    try {
      const response = await sendKnown("GET", path, { signal });
      await read(response.body, onEvent);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) console.error(error);
      if (error.status) onError(error);
      if (error.status === 403 || error.status === 404) return;
    }
    await (isSilent() ? nextHeard(signal) : pause(AGAIN_MS, signal));
  }
}

async function read(stream, onEvent) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  const owed = asked();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(() => ({ done: true }));
      if (done) return;
      heard();
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const data = block.split("\n").filter((line) => line.startsWith("data: "));
        if (data.length) onEvent(JSON.parse(data.map((line) => line.slice(6)).join("\n")));
      }
    }
  } finally {
    answered(owed);
  }
}

/** Wait, or less if `signal` says stop. */
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
