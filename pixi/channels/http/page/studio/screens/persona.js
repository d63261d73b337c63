// Personas: the list of files, and one file with its editor, what is wrong with it, its prompt and a talk.
import { get, post, Problem, put } from "../../lib/api.js";
import { html, useEffect, useMemo, useRef, useState } from "../../lib/html.js";
import { asProblem, Badge, Dialog, Loaded, Trouble, useLoaded, useNotice, Waiting } from "../../lib/parts.js";
import { t } from "../../lib/words.js";
import { Editor } from "../persona/editor.js";
import { differing } from "../persona/highlight.js";
import { HistoryView, Problems, PromptView } from "../persona/side.js";
import { DraftTalkView } from "../persona/talk.js";
import { go } from "../studio.js";

const LIST = "/api/studio/personas";
const LINT_PAUSE = 350; // milliseconds without a key pressed
const LOOK_PAUSE = 10_000; // between two looks whether the file changed on the disk

/** @typedef {{id: string, file: string, text: string, digest: string, read_only: string, unreadable: string, live: boolean, why: string}} PersonaFile */

/** Texts that were not saved, by names of files: they outlive a walk to another screen.
 * @type {Map<string, {text: string, digest: string}>}
 */
const drafts = new Map();

/** @param {{path: string[], query: URLSearchParams}} props */
export default function PersonaScreen({ path }) {
  const [name] = path;
  return name ? html`<${PersonaFileView} key=${name} name=${name} />` : html`<${PersonaList} />`;
}

function PersonaList() {
  const loaded = useLoaded(LIST);
  const [making, setMaking] = useState(false);
  return html`<header class="screen-head">
      <h1>${t("persona.title")}</h1>
      <button onClick=${() => setMaking(true)}>${t("persona.new")}</button>
    </header>
    ${making && html`<${NewPersona} onClose=${() => setMaking(false)} />`}
    <${Loaded} of=${loaded}
      >${(/** @type {any} */ data) => {
        const own = data.personas.filter((/** @type {any} */ each) => each.own);
        const others = data.personas.filter((/** @type {any} */ each) => !each.own);
        return html`<section class="stack">
          <h2>${t("persona.yours")}</h2>
          ${
            own.length
              ? html`<ul class="entries">
                  ${own.map((/** @type {any} */ each) => html`<${Entry} of=${each} />`)}
                </ul>`
              : html`<p class="soft">${t("persona.none_yet")} <code>${data.folder}</code></p>`
          }
          ${
            others.length > 0 &&
            html`<h2>${t("persona.shipped")}</h2>
              <ul class="entries">
                ${others.map((/** @type {any} */ each) => html`<${Entry} of=${each} />`)}
              </ul>`
          }
        </section>`;
      }}<//
    >`;
}

/** @param {{of: any}} props */
function Entry({ of: { id, live, default: answers, persona } }) {
  return html`<li>
    <a class="entry" href=${`/studio/persona/${encodeURIComponent(id)}`}>
      <span class="entry-name"><bdi>${persona.name ?? id}</bdi></span>
      <span class="soft entry-about"><bdi>${persona.about ?? ""}</bdi></span>
      <span class="row entry-marks">
        ${answers && html`<${Badge}>${t("persona.default")}<//>`}
        ${drafts.has(id) && html`<${Badge} kind="calm">${t("persona.unsaved")}<//>`}
        ${persona.faults.length > 0 && html`<${Badge} kind="bad">${t("persona.faults", { count: persona.faults.length })}<//>`}
        ${persona.remarks.length > 0 && html`<${Badge}>${t("persona.remarks", { count: persona.remarks.length })}<//>`}
        ${!live && !persona.faults.length && html`<${Badge} kind="bad">${t("persona.not_live")}<//>`}
      </span>
    </a>
  </li>`;
}

/** @param {{onClose: () => void}} props */
function NewPersona({ onClose }) {
  const [id, setId] = useState("");
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  /** @param {Event} event */
  const make = (event) => {
    event.preventDefault();
    post(LIST, { id: id.trim() }).then(
      (file) => go(`/studio/persona/${encodeURIComponent(file.id)}`),
      (error) => setProblem(asProblem(error)),
    );
  };
  return html`<${Dialog} title=${t("persona.new")} onClose=${onClose}>
    <form class="stack" onSubmit=${make}>
      <label class="stack"
        >${t("persona.file_name")}
        <input
          value=${id}
          placeholder="night-owl"
          required
          onInput=${(/** @type {any} */ event) => setId(event.target.value)}
        />
      </label>
      <${Trouble} problem=${problem} />
      <div class="row">
        <button>${t("persona.make")}</button>
        <button type="button" class="quiet" onClick=${onClose}>${t("shared.cancel")}</button>
      </div>
    </form>
  <//>`;
}

/** @param {{name: string}} props */
function PersonaFileView({ name }) {
  const path = `${LIST}/${encodeURIComponent(name)}`;
  const [file, setFile] = useState(/** @type {PersonaFile | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const load = () => {
    get(path).then(setFile, (error) => setProblem(asProblem(error)));
  };
  useEffect(load, [path]);
  if (problem) {
    return html`<header class="screen-head"><${Title} name=${name} /></header>
      <${Trouble} problem=${problem} retry=${() => (setProblem(null), load())} />`;
  }
  if (!file) return html`<${Waiting} />`;
  if (file.unreadable) {
    return html`<header class="screen-head"><${Title} name=${name} /></header>
      <${Trouble} problem=${new Problem(409, "", file.unreadable)} />`;
  }
  return html`<${Workbench} first=${file} path=${path} />`;
}

/** @param {{name: string}} props */
const Title = ({ name }) =>
  html`<div class="crumbs">
    <a href="/studio/persona">${t("persona.title")}</a> <span class="soft" aria-hidden="true">/</span>
    <h1 dir="auto">${name}</h1>
  </div>`;

/**
 * Have a text looked at a moment after it was written.
 * @param {string} path @param {string} text
 */
function useExamined(path, text) {
  const [examined, setExamined] = useState(/** @type {any} */ (null));
  useEffect(() => {
    let wanted = true;
    const timer = setTimeout(
      () =>
        post(`${path}/draft`, { text }).then(
          (told) => wanted && setExamined(told),
          () => {}, // the next key, or the save, tells
        ),
      examined ? LINT_PAUSE : 0,
    );
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [path, text]);
  return examined;
}

/**
 * Look now and then, and when the page is seen again, whether the file is another one on the disk.
 * @param {string} path @param {(file: PersonaFile | null) => void} seen hears what lies there; null: nothing
 */
function useLooking(path, seen) {
  const heard = useRef(seen);
  heard.current = seen;
  useEffect(() => {
    const look = () => {
      if (document.hidden) return;
      get(path).then(
        (file) => heard.current(file),
        (error) => error instanceof Problem && error.status === 404 && heard.current(null),
      );
    };
    const timer = setInterval(look, LOOK_PAUSE);
    addEventListener("focus", look);
    return () => {
      clearInterval(timer);
      removeEventListener("focus", look);
    };
  }, [path]);
}

const TABS = ["text", "problems", "prompt", "talk", "history"];

/** @param {{first: PersonaFile, path: string}} props */
function Workbench({ first, path }) {
  const draft = drafts.get(first.id);
  const [file, setFile] = useState(first); // as it lay on the disk when the text was taken from there
  const [text, setText] = useState(draft?.text ?? first.text);
  const [there, setThere] = useState(
    /** @type {PersonaFile | null | undefined} */ (
      draft && draft.digest !== first.digest ? first : undefined
    ),
  ); // what somebody else put there meanwhile; null: it was deleted
  const [saving, setSaving] = useState(false);
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [tab, setTab] = useState("text");
  const [shown, setShown] = useState(/** @type {{line: number, count: number} | null} */ (null));
  const [notice, say] = useNotice();
  const examined = useExamined(path, text);
  const dirty = text !== file.text;
  const persona = examined?.persona;

  useEffect(() => {
    if (dirty) drafts.set(file.id, { text, digest: file.digest });
    else drafts.delete(file.id);
    const warn = (/** @type {BeforeUnloadEvent} */ event) => dirty && event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [text, file]);

  useLooking(path, (now) => {
    if (saving) return;
    if (now === null) return setThere(null);
    if (now.digest === file.digest) return setFile(now);
    if (dirty && now.text !== text) return setThere(now);
    setFile(now);
    setText(now.text);
    setThere(undefined);
    return say(t("persona.taken_from_disk"));
  });

  const save = async () => {
    if (saving || file.read_only || there !== undefined) return;
    setSaving(true);
    setProblem(null);
    try {
      const now = await put(path, { text, digest: file.digest });
      setFile(now);
      say(t(now.live ? "persona.saved_live" : "persona.saved"));
    } catch (error) {
      const told = asProblem(error);
      const meanwhile = told.status === 409 || told.status === 404;
      if (meanwhile) await get(path).then(setThere, () => setThere(null));
      else setProblem(told);
    }
    setSaving(false);
  };
  const takeTheirs = () => {
    if (!there) return;
    setFile(there);
    setText(there.text);
    setThere(undefined);
  };
  const keepMine = () => {
    if (there) setFile(there);
    setThere(undefined);
  };
  const copy = () =>
    post(LIST, { id: file.id, like: file.id }).then(
      (now) => {
        setFile(now);
        say(t("persona.copied"));
      },
      (error) => setProblem(asProblem(error)),
    );
  /** @param {number} line */
  const show = (line) => {
    setTab("text");
    setShown((before) => ({ line, count: (before?.count ?? 0) + 1 }));
  };
  const problems = examined?.problems ?? [];
  const side = tab === "text" ? "problems" : tab;
  const state = dirty ? "unsaved" : file.live ? "live" : "not_live";
  return html`<header class="screen-head">
      <${Title} name=${persona?.name ?? file.id} />
      <${Badge} kind=${{ live: "good", not_live: "bad", unsaved: "calm" }[state]}>${t(`persona.${state}`)}<//>
      ${
        file.read_only
          ? html`<button onClick=${copy}>${t("persona.copy")}</button>`
          : html`<button
              disabled=${!dirty || saving || there !== undefined}
              aria-keyshortcuts="Control+S"
              onClick=${save}
            >
              ${t("shared.save")}
            </button>`
      }
    </header>
    ${notice}
    <${Trouble} problem=${problem} />
    ${file.read_only && html`<p class="soft server-word" dir="auto">${file.read_only}</p>`}
    ${!dirty && !file.live && file.why && html`<p class="server-word bad" role="alert" dir="auto">${file.why}</p>`}
    ${there !== undefined && html`<${Conflict} there=${there} text=${text} onTake=${takeTheirs} onKeep=${keepMine} />`}
    <div class=${`workbench tab-${tab}`}>
      <div class="tabs" role="tablist" aria-label=${t("persona.parts")}>
        ${TABS.map(
          (each) =>
            html`<button
              key=${each}
              class="bare"
              role="tab"
              id=${`tab-${each}`}
              aria-selected=${each === tab}
              data-shown=${each === side}
              aria-controls=${each === "text" ? "part-text" : "part-side"}
              onClick=${() => setTab(each)}
            >
              ${t(`persona.${each}`)}
              ${
                each === "problems" &&
                problems.length > 0 &&
                html`<span
                  class=${`count ${problems.some((/** @type {any} */ its) => its.stops) ? "bad" : ""}`}
                  >${problems.length}</span
                >`
              }
            </button>`,
        )}
      </div>
      <div class="part-text" id="part-text" role="tabpanel" aria-label=${t("persona.text")}>
        <${Editor}
          text=${text}
          label=${t("persona.text_of", { name: file.id })}
          problems=${problems}
          readOnly=${Boolean(file.read_only)}
          shown=${shown}
          onText=${setText}
          onSave=${save}
        />
        <p class="soft small mono" dir="ltr">${file.file}</p>
      </div>
      <div class="part-side" id="part-side" role="tabpanel" aria-labelledby=${`tab-${side}`}>
        ${side === "problems" && (examined ? html`<${Problems} problems=${problems} onShow=${show} />` : html`<${Waiting} />`)}
        ${side === "prompt" && html`<${PromptView} prompt=${examined?.prompt ?? null} />`}
        <div hidden=${side !== "talk"}>
          <${DraftTalkView} name=${file.id} title=${persona?.name ?? file.id} text=${text} />
        </div>
        ${side === "history" && html`<${HistoryView} name=${file.id} version=${file.digest} />`}
      </div>
    </div>`;
}

/**
 * Shows what somebody else put on the disk, beside the text here.
 * @param {{there: PersonaFile | null, text: string, onTake: () => void, onKeep: () => void}} props
 */
function Conflict({ there, text, onTake, onKeep }) {
  const lines = useMemo(() => (there ? differing(there.text, text) : []), [there, text]);
  if (!there) return html`<p class="server-word bad" role="alert">${t("persona.gone")}</p>`;
  const sign = { same: "  ", gone: "- ", new: "+ " };
  return html`<section class="server-word conflict" role="alert">
    <p>${t("persona.changed_on_disk")}</p>
    <pre class="diff" tabindex="0">
${lines.map((line) => html`<span class=${line.kind} dir="auto">${sign[line.kind]}${line.text}${"\n"}</span>`)}</pre>
    <div class="row">
      <button class="quiet" onClick=${onTake}>${t("persona.take_theirs")}</button>
      <button class="quiet" onClick=${onKeep}>${t("persona.keep_mine")}</button>
    </div>
  </section>`;
}
