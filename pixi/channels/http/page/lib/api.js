// Requests to the server that this page came from, and the streams of events that it answers with.

/** What the server refused, in its own words (RFC 9457). */
export class Problem extends Error {
  /**
   * @param {number} status of HTTP; 0: the server could not be reached
   * @param {string} title the kind of problem
   * @param {string} detail what is wrong, and what to do about it
   * @param {number} [after] seconds after which to try again; 0: nothing was said of it
   */
  constructor(status, title, detail, after = 0) {
    super(detail);
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.after = after;
  }
}

/**
 * Whose requests these are: set once the page knows.
 *  - `bearer`: a key or a visitor's token, for pages that have one;
 *  - `csrf`: the word of an operator's session.
 */
export const credentials = { bearer: "", csrf: "" };

/** Of the server; "" for the one that this page came from. Pages of others set it. */
export const server = { origin: "" };

/** An id that nothing else has. (`crypto.randomUUID` is there on secure pages alone.) */
export const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * A name as the server compares it: case, blanks and the spelling of an accent do not count.
 * @param {string} name
 */
const nameKey = (name) =>
  name
    .normalize("NFC")
    .toLowerCase()
    .replace(/[^ı]+/gu, (part) => part.toUpperCase()) // "ß" is "SS"; "ı" is no "I"
    .split(/[\p{White_Space}\x1c-\x1f]+/u)
    .filter(Boolean)
    .join(" ");

/**
 * The persona that is called that, by its file or by its own name if no other has it. The server finds the same.
 * @template {{id: string, name: string}} Persona
 * @param {Persona[]} personas
 * @param {string} name
 */
export function personaNamed(personas, name) {
  const same = (/** @type {string} */ other) => nameKey(other) === nameKey(name);
  const files = personas.filter((each) => same(each.id));
  const found = files.length ? files : personas.filter((each) => same(each.name));
  return personas.find((each) => each.id === name) ?? (found[1] ? undefined : found[0]);
}

/** @returns {Record<string, string>} */
export function headers() {
  /** @type {Record<string, string>} */
  const told = {};
  if (credentials.bearer) told["Authorization"] = `Bearer ${credentials.bearer}`;
  if (credentials.csrf) told["X-Pixi-CSRF"] = credentials.csrf;
  return told;
}

/**
 * Send a request, and return the answer once it is known to be a good one.
 * @param {string} method
 * @param {string} path
 * @param {RequestInit & {headers?: Record<string, string>}} [options]
 * @returns {Promise<Response>}
 * @throws {Problem}
 */
export async function request(method, path, options = {}) {
  let answer;
  try {
    answer = await fetch(server.origin + path, {
      signal: method === "GET" ? AbortSignal.timeout(30_000) : undefined,
      ...options,
      method,
      headers: { ...headers(), ...options.headers },
      credentials: server.origin ? "omit" : "same-origin",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "offline", "");
  }
  if (answer.ok) return answer;
  /** @type {{title?: string, detail?: string}} */
  const told = await answer.json().catch(() => ({}));
  const after = Number(answer.headers.get("Retry-After")) || 0;
  throw new Problem(answer.status, told.title ?? answer.statusText, told.detail ?? "", after);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body] sent as JSON
 * @param {Record<string, string>} [more] headers
 * @returns {Promise<any>} what the JSON answer holds; null for an empty one
 * @throws {Problem}
 */
async function exchanged(method, path, body, more = {}) {
  const answer = await request(method, path, {
    headers: body === undefined ? more : { "Content-Type": "application/json", ...more },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return answer.status === 204 ? null : answer.json();
}

/** @param {string} path */
export const get = (path) => exchanged("GET", path);
/** @param {string} path @param {unknown} [body] @param {Record<string, string>} [more] */
export const post = (path, body = {}, more = {}) => exchanged("POST", path, body, more);
/** @param {string} path @param {unknown} [body] */
export const put = (path, body = {}) => exchanged("PUT", path, body);
/** @param {string} path */
export const remove = (path) => exchanged("DELETE", path);

/**
 * Read the events of a stream as they come, until it ends.
 * @param {Response} answer
 * @param {() => void} [alive] hears of each sign of life; one comes every 15 seconds
 * @returns {AsyncGenerator<{id: string, data: any}>}
 */
export async function* eventsIn(answer, alive = () => {}) {
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      text += value;
      const frames = text.split("\n\n");
      text = frames.pop() ?? "";
      for (const frame of frames) {
        let id = "";
        const data = [];
        for (const line of frame.split("\n")) {
          if (line.startsWith("id: ")) id = line.slice(4);
          else if (line.startsWith("data: ")) data.push(line.slice(6));
        }
        if (data.length) yield { id, data: JSON.parse(data.join("\n")) };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
