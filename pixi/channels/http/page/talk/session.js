// A talk with the server: what is done here is asked of it, and all that comes of it is followed.
import { eventsIn, get, newId, post, Problem, request } from "../lib/api.js";
import * as conversation from "./conversation.js";

/** @typedef {import("./conversation.js").Talk} Talk */

const LONGEST_WAIT = 15_000;
const LONGEST_SILENCE = 45_000; // a connection that says nothing for so long is none any more

/** One talk, as long as it is shown. */
export class Session {
  /**
   * @param {string} name of the talk
   * @param {string} persona the name of its file
   * @param {(talk: Talk) => void} changed hears of each change
   * @param {(state: "open" | "lost" | "refused", problem?: Problem) => void} [connection] hears of the connection
   */
  constructor(name, persona, changed, connection = () => {}) {
    this.name = name;
    this.persona = persona;
    /** @type {Talk} */
    this.talk = { ...conversation.EMPTY, persona };
    this._changed = changed;
    this._connection = connection;
    this._place = "";
    this._following = new AbortController();
    this._follows = false;
    /** Done once what was said before stands. @type {Promise<void>} */
    this._opened = Promise.resolve();
    this._asks = false; // for an earlier page
    /** What the server may not have, by the page's id. @type {Map<string, {key: string, body: any}>} */
    this._unsent = new Map();
  }

  /**
   * Load what was said, and follow the talk; one of which nothing is known yet begins with the first words. A
   * server that cannot be reached is asked again.
   * @throws {Problem} the server does not let them in
   */
  open() {
    return (this._opened = this._open());
  }

  async _open() {
    addEventListener("online", () => this._resend(), { signal: this._following.signal });
    try {
      if (!(await this._load())) return;
    } catch (error) {
      if (!isPassing(error)) throw error;
      this._set({ ...this.talk, stale: true });
      this._connection("lost");
    }
    this._follow();
  }

  /** Follow it no more. */
  close() {
    this._following.abort();
  }

  /**
   * Say something, or say it in place of an earlier message.
   * @param {string} text
   * @param {{attachments?: {id: string, name: string, mediaType: string, url: string}[], replaces?: string}} [more]
   *   `url` of an attachment with an `id`: where this page has it
   */
  async say(text, { attachments = [], replaces = "" } = {}) {
    const body = {
      message: text,
      conversation: this.name,
      persona: this.persona,
      attachments: attachments.map((each) =>
        each.id ? { id: each.id } : { url: each.url, name: each.name },
      ),
      ...(replaces ? { replaces } : {}),
    };
    const failed = this.talk.messages.find(
      (each) =>
        each.fate === "failed" && JSON.stringify(this._unsent.get(each.id)?.body) === JSON.stringify(body),
    );
    if (failed) return this.retry(failed.id);
    const own = newId();
    const unsent = { key: own, body };
    if (!replaces) {
      this._unsent.set(own, unsent);
      const carried = attachments.map((each) => ({
        name: each.name,
        picture: each.mediaType.startsWith("image/"),
        url: each.id ? each.url : "",
      }));
      this._set(
        conversation.entered(this.talk, { id: own, text, attachments: carried, at: Date.now() / 1000 }),
      );
    }
    await this._send(own, unsent);
  }

  /** Send once more what the server does not have, as the same: it is there once. @param {string} own its id */
  async retry(own) {
    const unsent = this._unsent.get(own);
    if (!unsent || this.talk.messages.find((each) => each.id === own)?.fate !== "failed") return;
    this._set(conversation.retried(this.talk, own));
    await this._send(own, unsent, true);
  }

  /** Give up what the server does not have. @param {string} own its id @returns {string} its words */
  drop(own) {
    const text = this._unsent.get(own)?.body.message ?? "";
    this._unsent.delete(own);
    this._set(conversation.dropped(this.talk, own));
    return text;
  }

  /**
   * @param {string} own
   * @param {{key: string, body: any}} unsent
   * @param {boolean} [again] it may be there, and be answered
   * @throws {Problem}
   */
  async _send(own, unsent, again = false) {
    await this._opened.catch(() => {});
    try {
      const told = await post("/api/chat", unsent.body, {
        Prefer: "respond-async",
        "Idempotency-Key": unsent.key,
      });
      this._unsent.delete(own);
      this._set(conversation.accepted(this.talk, own, told.message));
      if (!this._follows) {
        if (again) await this._load();
        else this._place = told.place;
        this._follow();
      }
    } catch (error) {
      // It came before and is not answered: the server wants it anew.
      if (error instanceof Problem && error.status === 409) unsent.key = newId();
      const words = error instanceof Problem ? error.detail : "";
      this._set(conversation.refused(this.talk, own, words));
      throw error;
    }
  }

  /** Send what found no server, in its order. */
  async _resend() {
    for (const each of this.talk.messages) {
      if (each.fate !== "failed" || each.why) continue;
      try {
        await this.retry(each.id);
      } catch (error) {
        if (isLost(error)) return;
      }
    }
  }

  /** Have the answer to a message of the person anew. @param {string} id */
  async again(id) {
    await this.say("", { replaces: id });
  }

  /** Go to another branch, by the number of its first turn. @param {number} turn */
  async branch(turn) {
    await post(this._path("/branch"), { turn });
  }

  /** Take the last words out. @returns {Promise<string[]>} them */
  async undo() {
    return (await post(this._path("/undo"))).messages;
  }

  /** Forget what was said. */
  async reset() {
    await post(this._path("/reset"));
  }

  /** Stop the reply that is being written. */
  async stop() {
    await post(this._path("/stop"), this.talk.turn ? { turn: this.talk.turn } : {});
  }

  /** Answer a question. @param {string} id @param {boolean} approved */
  async answer(id, approved) {
    await post(this._path(`/approvals/${encodeURIComponent(id)}`), { approved });
  }

  /** Load an earlier page, where there is one. */
  async earlier() {
    const before = conversation.firstTurn(this.talk);
    if (!this.talk.more || !before || this._asks) return;
    this._asks = true;
    try {
      this._set(conversation.earlier(this.talk, await get(this._path("/messages", { before }))));
    } finally {
      this._asks = false;
    }
  }

  /** @returns {Promise<boolean>} whether there is such a talk yet */
  async _load() {
    try {
      const answer = await get(this._path("/messages"));
      this._place = answer.place;
      this._set(conversation.loaded(this.talk, answer));
      return true;
    } catch (error) {
      if (!(error instanceof Problem && error.status === 404)) throw error;
      this._set({ ...this.talk, loaded: true, stale: false });
      this._connection("open");
      return false;
    }
  }

  async _follow() {
    this._follows = true;
    const { signal } = this._following;
    let wait = 500;
    while (!signal.aborted) {
      await seen();
      try {
        if (this.talk.stale && !(await this._load())) break;
        await this._hear(() => (wait = 500));
        if (this.talk.stale || document.hidden) continue;
      } catch (error) {
        if (signal.aborted) break;
        if (error instanceof Problem && !isPassing(error)) {
          this._follows = false;
          this._connection("refused", error);
          return;
        }
      }
      if (signal.aborted) break;
      this._connection("lost");
      await waited(wait);
      wait = Math.min(wait * 2, LONGEST_WAIT);
    }
    this._follows = false;
  }

  /**
   * Take events as they come, until the connection ends, what was said before is not as it was, or nobody sees
   * the page and nothing is awaited: a browser has six connections to a server, for all of its windows.
   * @param {() => void} opened
   */
  async _hear(opened) {
    const path = this._path("/stream", { follow: "talk", after: this._place });
    const pause = new AbortController();
    const silent = new AbortController();
    const rest = () => document.hidden && !this.talk.waiting && pause.abort();
    const signal = AbortSignal.any([this._following.signal, pause.signal, silent.signal]);
    let timer = 0;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), LONGEST_SILENCE);
    };
    document.addEventListener("visibilitychange", rest);
    alive();
    try {
      const answer = await request("GET", path, { signal, headers: { Accept: "text/event-stream" } });
      opened();
      this._connection("open");
      this._resend();
      for await (const { id, data } of eventsIn(answer, alive)) {
        if (id) this._place = id;
        this._set(conversation.heard(this.talk, data, Date.now() / 1000));
        rest();
        if (this.talk.stale) return;
      }
    } catch (error) {
      if (!pause.signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", rest);
    }
  }

  /** @param {string} tail @param {Record<string, string | number>} [more] */
  _path(tail, more = {}) {
    const query = new URLSearchParams({ persona: this.persona });
    for (const [name, value] of Object.entries(more)) query.set(name, String(value));
    return `/api/chat/${encodeURIComponent(this.name)}${tail}?${query}`;
  }

  /** @param {Talk} talk */
  _set(talk) {
    this.talk = talk;
    if (!this._following.signal.aborted) this._changed(talk); // another may be shown by now
  }
}

/** Whether the server could not be reached. @param {unknown} error */
const isLost = (error) => error instanceof Problem && error.status === 0;

/** Whether it may go well the next time. @param {unknown} error */
const isPassing = (error) =>
  error instanceof Problem && (error.status === 0 || error.status === 429 || error.status >= 500);

/** Wait until somebody sees the page. @returns {Promise<void>} */
function seen() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => {
    document.addEventListener("visibilitychange", function look() {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      done();
    });
  });
}

/** Wait for so many milliseconds, or until the network is there again. @param {number} most @returns {Promise<void>} */
function waited(most) {
  return new Promise((done) => {
    const over = () => {
      clearTimeout(timer);
      removeEventListener("online", over);
      done();
    };
    const timer = setTimeout(over, most);
    addEventListener("online", over);
  });
}
