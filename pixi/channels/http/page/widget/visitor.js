// A visitor of somebody's page: the token by which the server knows them again, and what the page keeps of them.
import { credentials, get, post, server } from "../lib/api.js";

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
      ...(same ? {} : { ...NOTHING, token: told.token, expires: told.expires, talk: crypto.randomUUID() }),
    });
    return told.personas;
  }
}

/** @param {string} place @returns {any} */
function read(place) {
  try {
    return JSON.parse(localStorage.getItem(place) ?? inMemory.get(place) ?? "{}");
  } catch {
    return JSON.parse(inMemory.get(place) ?? "{}");
  }
}

/** @param {string} place @param {string} text */
function write(place, text) {
  inMemory.set(place, text);
  try {
    localStorage.setItem(place, text);
  } catch {
    // What cannot be kept is known for as long as the page is open.
  }
}
