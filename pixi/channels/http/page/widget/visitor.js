// A visitor of somebody's page: the token by which the server knows them again, and what the page keeps of them.
import { credentials, get, newId, post, server } from "../lib/api.js";

/**
 * @typedef {object} Kept
 * @property {string} token
 * @property {number} expires seconds since the epoch
 * @property {string} talk the name of the talk
 * @property {boolean} spoke they have said something there
 * @property {boolean} waits a reply was under way when the page was left
 * @property {number} unread messages that came while the widget was closed
 */

/** @type {Kept} */
const NOTHING = { token: "", expires: 0, talk: "", spoke: false, waits: false, unread: 0 };
const SOON = 3600; // seconds before its end in which a token is renewed

/** What is kept where nothing can be, as in a sandbox. @type {Map<string, string>} */
const inMemory = new Map();

/** One visitor, by the publishable key of the page and the persona that they talk to. */
export class Visitor {
  /** @param {string} key @param {string} persona */
  constructor(key, persona) {
    this._key = key;
    this._place = `pixi-chat ${server.origin} ${key} ${persona}`;
    /** @type {Kept} */
    this.kept = { ...NOTHING, ...read(this._place) };
  }

  /** Whether it was left open, in this window. */
  get wasOpen() {
    return read(`${this._place} open`, "sessionStorage") === true;
  }

  set wasOpen(open) {
    write(`${this._place} open`, JSON.stringify(open), "sessionStorage");
  }

  /** @param {Partial<Kept>} news */
  keep(news) {
    this.kept = { ...this.kept, ...news };
    write(this._place, JSON.stringify(this.kept));
  }

  /**
   * Let them in, as who they were before where that is known.
   * @returns {Promise<any[]>} the personas that they may talk to
   */
  async enter() {
    if (this.kept.expires - SOON > Date.now() / 1000) {
      credentials.bearer = this.kept.token;
      try {
        return (await get("/api/personas")).personas;
      } catch (error) {
        // A token may end early, with its key: then they are let in anew.
        if (/** @type {any} */ (error).status !== 401) throw error;
      }
    }
    const bearer = { Authorization: `Bearer ${this._key}` };
    const told = await post("/api/visitors", { token: this.kept.token }, bearer);
    credentials.bearer = told.token;
    const same = told.known && this.kept.talk;
    this.keep({
      token: told.token,
      expires: told.expires,
      ...(same ? {} : { ...NOTHING, token: told.token, expires: told.expires, talk: newId() }),
    });
    return told.personas;
  }
}

/**
 * @param {string} place
 * @param {"localStorage" | "sessionStorage"} where
 * @returns {any} null: nothing is kept
 */
function read(place, where = "localStorage") {
  let kept = inMemory.get(place) ?? "null";
  try {
    kept = window[where].getItem(place) ?? kept;
  } catch {
    // As in a sandbox: what is known is what this page kept.
  }
  try {
    return JSON.parse(kept);
  } catch {
    return null;
  }
}

/**
 * @param {string} place
 * @param {string} text
 * @param {"localStorage" | "sessionStorage"} where
 */
function write(place, text, where = "localStorage") {
  inMemory.set(place, text);
  try {
    window[where].setItem(place, text);
  } catch {
    // What cannot be kept is known for as long as the page is open.
  }
}
