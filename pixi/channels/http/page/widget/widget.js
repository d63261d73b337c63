// <pixi-chat>: a talk with a persona in other people's pages. Everything stands in a shadow tree with styles of
// its own, which come as style sheets made by script, so that a page need allow no inline style. Of its content
// security policy it needs this server under script-src, connect-src and img-src.
import { personaNamed, Problem, server } from "../lib/api.js";
import { h, render } from "../lib/html.js";
import { loadWords, t } from "../lib/words.js";
import { EMPTY } from "../talk/conversation.js";
import { Session } from "../talk/session.js";
import { Widget } from "./view.js";
import { Visitor } from "./visitor.js";

const HOME = new URL(import.meta.url).origin;
const tags = [...document.scripts].filter((script) => script.src.startsWith(`${HOME}/widget.js`));
/** The line on the page. */
const tag = tags.find((script) => script.dataset.key) ?? tags[0];

server.origin = HOME === location.origin ? "" : HOME;

const sheet = new CSSStyleSheet();

/** What all of them need, loaded once. @type {Promise<unknown> | null} */
let dressed = null;

/** @param {string} language */
async function dress(language) {
  const answer = await fetch(new URL("./widget.css", import.meta.url));
  await Promise.all([sheet.replace(await answer.text()), loadWords("widget", language)]);
}

/** The element. Attributes: `key`, `persona`, `open`, `inline`, `lang`, `theme`; see docs/widget.md. */
class PixiChat extends HTMLElement {
  constructor() {
    super();
    this._root = this.attachShadow({ mode: "open" });
    this._wakes = () => document.visibilityState === "visible" && this._redraw();
    /** @type {Session | null} */
    this._session = null;
    /** @type {Visitor | null} */
    this._visitor = null;
    /** @type {import("./view.js").Shown} */
    this._shown = {
      open: false,
      byHand: false,
      framed: false,
      unread: 0,
      persona: null,
      talk: EMPTY,
      state: "coming",
      trouble: "",
    };
    this._seen = new Set();
    /** What was said before stands once this is done. @type {Promise<void>} */
    this._entered = Promise.resolve();
  }

  connectedCallback() {
    this._shown.framed = this.hasAttribute("inline");
    this._begin().catch((error) => console.error("pixi-chat:", error));
  }

  disconnectedCallback() {
    this._leave();
    render(null, this._root);
  }

  get key() {
    return this.getAttribute("key") ?? tag?.getAttribute("data-key") ?? "";
  }

  get persona() {
    return this.getAttribute("persona") ?? tag?.getAttribute("data-persona") ?? "";
  }

  async _begin() {
    const language = this.lang || tag?.getAttribute("data-lang") || document.documentElement.lang;
    dressed ??= dress(language);
    try {
      await dressed;
      this._root.adoptedStyleSheets = [sheet];
    } catch {
      dressed = null;
      console.error(`pixi-chat: ${HOME} cannot be asked from this page. ${policy()}`);
      return;
    }
    if (!this.key) await aMoment();
    if (!this.isConnected) return;
    if (!this.key) {
      noKey();
      return;
    }
    const visitor = (this._visitor = new Visitor(this.key, this.persona));
    this._shown.unread = visitor.kept.unread;
    // Whoever has never opened it is nobody to the server. On the next page of a site it stays open, where it
    // does not cover the page.
    const stays = visitor.wasOpen && matchMedia("(min-width: 481px)").matches;
    if (this._shown.framed || this.hasAttribute("open") || stays) this._toggle(true);
    else if (visitor.kept.waits) this._enter();
    this._redraw();
  }

  /** @param {boolean} open @param {boolean} [byHand] */
  _toggle(open, byHand = false) {
    this._set({ open, byHand, ...(open ? { unread: 0 } : {}) });
    if (this._visitor && byHand) this._visitor.wasOpen = open;
    if (open) {
      this._visitor?.keep({ unread: 0 });
      if (!this._session) this._enter();
    } else if (!this._shown.talk.waiting) {
      this._leave();
    }
    this.dispatchEvent(new CustomEvent(open ? "pixi-open" : "pixi-close", { bubbles: true, composed: true }));
  }

  /** Let the visitor in, and take their talk up. */
  _enter() {
    this._entered = this._letIn();
  }

  async _letIn() {
    const visitor = this._visitor;
    if (!visitor) return;
    this._set({ state: "coming", trouble: "" });
    try {
      const personas = await visitor.enter();
      const persona = this.persona ? personaNamed(personas, this.persona) : personas[0];
      if (!persona) {
        console.error(`pixi-chat: the key reaches no persona ${JSON.stringify(this.persona)}.`);
        this._set({ state: "refused" });
        return;
      }
      this._set({ persona });
      const session = new Session(
        visitor.kept.talk,
        persona.id,
        (talk) => session === this._session && this._heard(talk),
        (state, problem) => session === this._session && this._connection(state, problem),
      );
      this._leave();
      this._session = session;
      await session.open();
      this._set({ state: "" });
    } catch (error) {
      await this._refused(error);
    }
  }

  /** Follow the talk no more. */
  _leave() {
    this._session?.close();
    this._session = null;
  }

  /** @param {"open" | "lost" | "refused"} state @param {Problem} [problem] */
  _connection(state, problem) {
    if (state === "refused") {
      this._leave();
      // The token has ended, or the talk was forgotten: they come in anew.
      if (problem?.status === 401 || problem?.status === 404) this._enter();
      else this._refused(problem);
      return;
    }
    this._set({ state: state === "open" ? "" : "lost" });
  }

  /** @param {import("./view.js").Talk} talk */
  _heard(talk) {
    const whole = talk.messages.filter((each) => each.role === "assistant" && !each.growing);
    const news = whole.filter((each) => !this._seen.has(each.id));
    const first = !this._shown.talk.loaded;
    for (const each of news) this._seen.add(each.id);
    let { unread } = this._shown;
    const came = first ? this._cameWhileAway(whole) : news.length;
    if (!this._shown.open && !this._shown.framed) unread += came;
    this._visitor?.keep({ unread, waits: talk.waiting, spoke: talk.messages.length > 0 });
    this._set({ talk, unread });
    if (!this._shown.open && !this._shown.framed && talk.loaded && !talk.waiting) this._leave();
  }

  /** How much of a reply came that was under way when the page was left. @param {{turn: number}[]} whole */
  _cameWhileAway(whole) {
    const last = whole.at(-1);
    return this._visitor?.kept.waits && last ? whole.filter((each) => each.turn === last.turn).length : 0;
  }

  /** @param {string} text */
  async _say(text) {
    await this._entered.catch(() => {}); // who types faster than the server answers is not forgotten
    const session = this._session;
    if (!session) return false;
    this._set({ trouble: "" });
    try {
      await session.say(text);
      return true;
    } catch (error) {
      const problem = /** @type {any} */ (error);
      this._set({ trouble: problem.detail || t("lost") });
      if (problem.status === 401) this._enter();
      return true; // it stands in the talk, marked as not sent
    }
  }

  /** Tell the developer why nothing comes, and the visitor that nothing does. @param {any} error */
  async _refused(error) {
    this._set({ state: "refused" });
    if (!(error instanceof Problem)) throw error;
    if (error.status) {
      console.error(`pixi-chat: ${HOME} answers ${error.status}: ${error.detail || error.title}`);
      return;
    }
    const reached = await fetch(`${server.origin}/widget.js`, { cache: "no-store" }).then(
      (answer) => answer.ok,
      () => false,
    );
    if (reached) keyNeeded(`${HOME} lets no page of ${location.origin} call`);
    else console.error(`pixi-chat: ${HOME} cannot be reached from this page. ${policy()}`);
  }

  /** @param {Partial<import("./view.js").Shown>} news */
  _set(news) {
    this._shown = { ...this._shown, ...news };
    this._redraw();
  }

  _redraw() {
    if (!this.isConnected || !this._root.adoptedStyleSheets.length) return;
    const session = () => this._session;
    const quietly = (/** @type {Promise<unknown> | undefined} */ doing) =>
      doing?.catch((error) => this._set({ trouble: error.detail || t("lost") }));
    const acts = {
      toggle: (/** @type {boolean} */ open) => this._toggle(open, true),
      say: (/** @type {string} */ text) => this._say(text),
      retry: (/** @type {string} */ id) => quietly(session()?.retry(id)),
      stop: () => quietly(session()?.stop()),
      reset: () => quietly(session()?.reset()),
      earlier: () => quietly(session()?.earlier()),
      enter: () => this._enter(),
    };
    render(h(Widget, { shown: this._shown, acts }), this._root);
  }
}

const keyNeeded = (/** @type {string} */ fault) =>
  console.error(
    `pixi-chat: ${fault}. Make a key for this origin: ` +
      `pixi-persona keys add NAME --publishable --origin ${location.origin}`,
  );

/** Tell that there is no key, if no element has one. */
function noKey() {
  const all = /** @type {NodeListOf<PixiChat>} */ (document.querySelectorAll("pixi-chat"));
  if (![...all].some((each) => each.key)) keyNeeded("There is no key (data-key), and so no chat");
}

/** Wait for what scripts bring once the page has loaded. */
async function aMoment() {
  if (document.readyState !== "complete") await new Promise((done) => addEventListener("load", done));
  await new Promise((done) => setTimeout(done, 2000));
}

const policy = () =>
  `If it runs, the page's content security policy stops it: it must name ${HOME} under script-src, connect-src ` +
  "and img-src.";

if (!customElements.get("pixi-chat")) {
  customElements.define("pixi-chat", PixiChat);
  // A page that says nothing of where it is to stand has it in its corner.
  const place = () => {
    if (document.querySelector("pixi-chat")) return;
    if (tag?.dataset.key) document.body.append(document.createElement("pixi-chat"));
    else aMoment().then(noKey);
  };
  if (tag && document.body) place();
  else if (tag) addEventListener("DOMContentLoaded", place);
}
