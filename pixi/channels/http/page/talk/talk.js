// The talk: who may come in, with whom one talks, and what is said.
import { credentials, get, newId, personaNamed, Problem } from "../lib/api.js";
import { html, render, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { markdown } from "../lib/markdown.js";
import { asProblem, Trouble, Waiting } from "../lib/parts.js";
import { loadWords, spoken, t } from "../lib/words.js";
import { Visitor } from "../widget/visitor.js";
import { commands, lastOwn, run } from "./commands.js";
import { Composer } from "./composer.js";
import { EMPTY } from "./conversation.js";
import { Log } from "./log.js";
import { Face } from "./message.js";
import { Session } from "./session.js";
import { Side } from "./side.js";

const KEY = "pixi-key"; // in the storage of the tab: who closes it has left
const THEME = "pixi-theme";

/**
 * @typedef {import("./message.js").Persona} Persona
 * @typedef {{personas: Persona[], default: string, can: {files: boolean, approvals: boolean, characters: number,
 *   attachments: number, fileBytes: number}}} Access
 */

/** @returns {{persona: string, talk: string}} what the address names */
function place() {
  const query = new URLSearchParams(location.search);
  return { persona: query.get("persona") ?? "", talk: query.get("talk") ?? "" };
}

/** @param {string} persona @param {string} talk @param {boolean} [instead] */
function go(persona, talk, instead = false) {
  const query = new URLSearchParams(location.search);
  query.set("persona", persona);
  query.set("talk", talk);
  history[instead ? "replaceState" : "pushState"](null, "", `?${query}`);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** Let somebody in by what they have: a publishable key of this page, or a secret one; without one, this
 * machine's own person.
 * @param {string} key @returns {Promise<Access>}
 */
async function enter(key) {
  if (key.startsWith("pixi_pk_")) await new Visitor(key, "").enter();
  else credentials.bearer = key;
  return get("/api/personas");
}

function App() {
  const [access, setAccess] = useState(/** @type {Access | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [at, setAt] = useState(place());

  /** @param {string} key */
  const knock = async (key) => {
    try {
      setAccess(await enter(key));
      setProblem(null);
      if (key && !key.startsWith("pixi_pk_")) sessionStorage.setItem(KEY, key);
    } catch (error) {
      sessionStorage.removeItem(KEY);
      credentials.bearer = "";
      setProblem(asProblem(error));
    }
  };
  useEffect(() => {
    knock(new URLSearchParams(location.search).get("key") ?? sessionStorage.getItem(KEY) ?? "");
    const moved = () => setAt(place());
    addEventListener("popstate", moved);
    return () => removeEventListener("popstate", moved);
  }, []);

  if (!access) {
    if (problem?.status === 401) return html`<${Door} problem=${problem} onEnter=${knock} />`;
    if (problem)
      return html`<main class="door"><${Trouble} problem=${problem} retry=${() => knock("")} /></main>`;
    return html`<div class="room">
      <header class="head">
        <svg class="face" viewBox="0 0 24 24" aria-hidden="true">
          <circle cx="12" cy="12" r="12" fill="currentColor" opacity="0.12" />
        </svg>
      </header>
      <div id="side"></div>
      <main class="door"><${Waiting} /></main>
    </div>`;
  }
  const known = personaNamed(access.personas, at.persona);
  const persona = known ?? access.personas.find((each) => each.id === access.default) ?? access.personas[0];
  if (!persona) return html`<main class="door"><p>${t("talk.nobody")}</p></main>`;
  return html`<${Room} access=${access} persona=${persona} talk=${known ? at.talk : ""} />`;
}

/** @param {{problem: Problem, onEnter: (key: string) => void}} props */
function Door({ problem, onEnter }) {
  const [key, setKey] = useState("");
  /** @param {Event} event */
  const entered = (event) => {
    event.preventDefault();
    onEnter(key.trim());
  };
  return html`<main class="door stack">
    <h1>${t("talk.door")}</h1>
    <form class="stack" onSubmit=${entered}>
      <label class="stack"
        >${t("talk.key")}
        <input
          type="password"
          autocomplete="current-password"
          placeholder="pixi_sk_…"
          required
          value=${key}
          onInput=${(/** @type {any} */ event) => setKey(event.target.value)}
        />
      </label>
      <button>${t("talk.enter")}</button>
    </form>
    ${key && html`<${Trouble} problem=${problem} />`}
  </main>`;
}

/** @param {{access: Access, persona: Persona, talk: string}} props */
function Room({ access, persona, talk: name }) {
  const [talks, setTalks] = useState(/** @type {any[] | null} */ (null));
  const [talk, setTalk] = useState(EMPTY);
  const [lost, setLost] = useState(false);
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [told, setTold] = useState("");
  const [draft, setDraft] = useState({ text: "", key: 0 });
  const [editing, setEditing] = useState("");
  const [open, setOpen] = useState(false);
  const [dropping, setDropping] = useState(false);
  const menu = useRef(/** @type {HTMLElement | null} */ (null));
  const session = useRef(/** @type {Session | null} */ (null));

  const list = () =>
    get("/api/talks").then(
      (answer) => setTalks(answer.talks),
      () => setTalks((now) => now ?? []),
    );
  useEffect(() => void list(), [talk.turn]);
  useEffect(() => {
    // Without a name: the last talk with this persona, else a new one.
    if (name || talks === null) return;
    go(persona.id, talks.find((each) => each.persona === persona.id)?.conversation ?? newId(), true);
  }, [name, talks === null, persona.id]);
  useEffect(() => {
    setTalk({ ...EMPTY, persona: persona.id });
    setProblem(null);
    setTold("");
    setEditing("");
    setLost(false);
    if (!name) return undefined;
    const opened = new Session(name, persona.id, setTalk, (state, refused) => {
      setLost(state === "lost");
      if (refused) setProblem(refused);
    });
    session.current = opened;
    opened.open().catch((error) => session.current === opened && setProblem(asProblem(error)));
    return () => opened.close();
  }, [name, persona.id]);
  useEffect(() => {
    document.title = persona.name;
    document.documentElement.dataset["busy"] = String(talk.waiting);
  }, [persona.name, talk.waiting]);

  /** Do something with the talk, and tell what goes wrong. @param {(session: Session) => unknown} act */
  const attempt = async (act) => {
    const now = session.current;
    if (!now) return false;
    try {
      setProblem(null);
      await act(now);
      return true;
    } catch (error) {
      if (now === session.current) setProblem(asProblem(error));
      return false;
    }
  };
  const startNew = () => {
    setOpen(false);
    go(persona.id, newId());
  };
  /** @param {string} id */
  const meet = (id) => {
    setOpen(false);
    if (id !== persona.id) go(id, talks?.find((each) => each.persona === id)?.conversation ?? newId());
  };
  /** @param {import("./conversation.js").Message} message */
  const edit = (message) => {
    setEditing(message.id);
    setDraft((now) => ({ text: message.text, key: now.key + 1 }));
  };
  const editLast = () => {
    const last = session.current && lastOwn(session.current);
    if (last) edit(last);
  };
  /** @param {string} text @param {import("./files.js").Upload[]} files */
  const send = async (text, files) => {
    setTold("");
    if (text.startsWith("/") && !files.length) {
      return attempt(async (now) =>
        setTold(
          await run(text, {
            session: now,
            personas: access.personas,
            startNew,
            meet,
            editLast,
            put: (put) => setDraft((before) => ({ text: put, key: before.key + 1 })),
            clear: () => location.assign("/"),
          }),
        ),
      );
    }
    const replaces = editing;
    setEditing("");
    const attachments = files.map(({ id, name: called, mediaType, picture }) => ({
      id,
      name: called,
      mediaType,
      url: picture,
    }));
    if (replaces) {
      const here = session.current;
      const done = await attempt((now) => now.say(text, { attachments, replaces }));
      if (!done && here === session.current) setEditing(replaces);
      return done;
    }
    // What is not sent stands in the talk, and tells of it there.
    session.current?.say(text, { attachments }).catch(quiet);
    return true;
  };
  // Lines that are not drawn again keep those that they were given: nothing here may hang on one drawing.
  /** @type {import("./log.js").Acts} */
  const acts = {
    say: (text) => void send(text, []),
    again: (message) => void attempt((now) => now.again(message.id)),
    edit,
    branch: (turn) => void attempt((now) => now.branch(turn)),
    answer: (id, yes) => void attempt((now) => now.answer(id, yes)),
    retry: (message) => void session.current?.retry(message.id).catch(quiet),
    drop: (message) => {
      const text = session.current?.drop(message.id) ?? "";
      setDraft((now) => ({ text, key: now.key + 1 }));
    },
  };

  const offered = useMemo(commands, []);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const keyed = (event) => {
      if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
      if (open) {
        setOpen(false);
        menu.current?.focus();
      } else if (talk.turn > 0) attempt((now) => now.stop());
    };
    addEventListener("keydown", keyed);
    return () => removeEventListener("keydown", keyed);
  }, [open, talk.turn]);
  return html`<div class=${["room", open && "open", dropping && "dropping"].filter(Boolean).join(" ")}>
    <header class="head">
      <button
        ref=${menu}
        class="bare menu"
        aria-label=${t("talk.menu")}
        aria-expanded=${open ? "true" : "false"}
        aria-controls="side"
        onClick=${() => setOpen(!open)}
      >
        <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 7h16M4 12h16M4 17h16" /></svg>
      </button>
      <${Face} persona=${persona} />
      <div class="who">
        <h1 dir="auto">${persona.name}</h1>
        <p class="small soft clip" dir="auto" role="status">${lost ? t("talk.lost") : persona.about}</p>
      </div>
      <${ThemeSwitch} />
    </header>
    <aside id="side" aria-label=${t("talk.menu")}>
      <${Side}
        personas=${access.personas}
        talks=${talks ?? []}
        persona=${persona.id}
        talk=${name}
        onMeet=${meet}
        onNew=${startNew}
        onOpen=${(/** @type {string} */ who, /** @type {string} */ which) => {
          setOpen(false);
          go(who, which);
        }}
      />
    </aside>
    <main data-drop=${t("talk.dropFiles")}>
      <${Log}
        key=${`${persona.id} ${name}`}
        talk=${talk}
        persona=${persona}
        acts=${acts}
        onEarlier=${() => attempt((now) => now.earlier())}
      >
        ${told && html`<div class="told" role="status" dir="auto">${markdown(told)}</div>`}
        ${talk.trouble && html`<p class="told bad" role="alert" dir="auto">${talk.trouble}</p>`}
        <${Trouble}
          problem=${problem}
          retry=${talk.loaded ? undefined : () => attempt((now) => now.open())}
        />
      <//>
      <${Composer}
        can=${access.can}
        ready=${talk.loaded}
        writing=${talk.turn > 0}
        draft=${draft}
        commands=${offered}
        editing=${Boolean(editing)}
        onSend=${send}
        onStop=${() => attempt((now) => now.stop())}
        onEditLast=${editLast}
        onCancel=${() => setEditing("")}
        onDrag=${setDropping}
      />
    </main>
  </div>`;
}

/** What went wrong is told elsewhere, if it is a problem of the server. @param {unknown} error */
function quiet(error) {
  if (!(error instanceof Problem)) throw error;
}

/** Light, dark, or as the system has it. */
function ThemeSwitch() {
  const [theme, setTheme] = useState(localStorage.getItem(THEME) ?? "");
  useEffect(() => {
    if (theme) document.documentElement.dataset["theme"] = theme;
    else delete document.documentElement.dataset["theme"];
    localStorage.setItem(THEME, theme);
  }, [theme]);
  const isDark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  return html`<button
    class="bare"
    aria-label=${t(isDark ? "talk.light" : "talk.dark")}
    title=${t(isDark ? "talk.light" : "talk.dark")}
    onClick=${() => setTheme(isDark ? "light" : "dark")}
  >
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <circle cx="12" cy="12" r="7" />
      <path class="solid" d="M12 5a7 7 0 0 1 0 14z" />
    </svg>
  </button>`;
}

const query = new URLSearchParams(location.search);
await loadWords("talk", query.get("lang") ?? "");
document.documentElement.lang = spoken();
if (query.get("dir") === "rtl") document.documentElement.dir = "rtl";
const root = document.getElementById("talk");
if (root) render(html`<${App} />`, root);
