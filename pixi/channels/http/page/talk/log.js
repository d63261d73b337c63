// What was said, as far as one looks: the end stays in sight unless one reads further up.
//
// Of a long talk only a part is in the page, which moves as one reads: what is read keeps its place while
// messages come and go above it.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { safeLink } from "../lib/markdown.js";
import { moment, t } from "../lib/words.js";
import { Face, Said } from "./message.js";

/**
 * @typedef {import("./conversation.js").Talk} Talk
 * @typedef {import("./conversation.js").Message} MessageForm
 * @typedef {import("./message.js").Persona} Persona
 */

const MOST = 120; // messages that are drawn at once
const STEP = 40; // by so many the part moves
const EDGE = 800; // pixels from its edges at which it moves
const NEAR = 80; // pixels from the end that count as the end

/**
 * @typedef {object} Acts what can be done with messages
 * @property {(text: string) => void} say
 * @property {(message: MessageForm) => void} again
 * @property {(message: MessageForm) => void} edit
 * @property {(turn: number) => void} branch
 * @property {(question: string, approved: boolean) => void} answer
 * @property {(message: MessageForm) => void} retry what could not be sent
 * @property {(message: MessageForm) => void} drop what could not be sent
 */

/**
 * The part of the messages that is drawn, and how it moves.
 * @param {Talk} talk
 * @param {() => Promise<unknown>} onEarlier
 */
function usePart(talk, onEarlier) {
  const log = useRef(/** @type {HTMLElement | null} */ (null));
  const lines = useRef(/** @type {HTMLElement | null} */ (null));
  const view = useRef({ atEnd: true, line: /** @type {Element | null} */ (null), place: 0 });
  const asking = useRef(false);
  const [last, setLast] = useState(""); // message of the part; "": the last of all
  const [atEnd, setAtEnd] = useState(true);
  const { messages } = talk;
  const found = last ? messages.findLastIndex((each) => each.id === last) : -1;
  const end = found < 0 ? messages.length : found + 1;
  const begin = Math.max(end - MOST, 0);

  /** Where a line is in all that is drawn. @param {HTMLElement} box @param {Element} line */
  const placeOf = (box, line) =>
    line.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop;
  /** Remember the first line that is seen; what stands above the lines stays there. @param {HTMLElement} box */
  const look = (box) => {
    const top = box.getBoundingClientRect().top;
    const line = [...(lines.current?.querySelectorAll(".line") ?? [])].find(
      (each) => each.getBoundingClientRect().bottom > top,
    );
    view.current = { ...view.current, line: line ?? null, place: line ? placeOf(box, line) : 0 };
  };
  /** Keep in sight what was in sight, whatever changed above it. */
  const hold = () => {
    const box = log.current;
    if (!box) return;
    const { atEnd: stays, line, place } = view.current;
    if (stays) box.scrollTop = box.scrollHeight;
    else if (line?.isConnected) box.scrollTop += placeOf(box, line) - place;
    if (!stays) look(box);
  };
  useLayoutEffect(hold);
  useEffect(() => {
    // Pictures that come, and a keyboard that opens, change the height too.
    const box = log.current;
    if (!box) return undefined;
    const held = new ResizeObserver(hold);
    held.observe(box);
    for (const child of box.children) held.observe(child);
    return () => held.disconnect();
  }, []);

  /** @param {number} to */
  const move = (to) => setLast(to >= messages.length ? "" : (messages[to - 1]?.id ?? ""));
  const scrolled = () => {
    const box = log.current;
    if (!box) return;
    const below = box.scrollHeight - box.scrollTop - box.clientHeight;
    const near = below < NEAR && end === messages.length;
    view.current.atEnd = near;
    setAtEnd(near);
    look(box);
    if (below < EDGE && end < messages.length) move(end + STEP);
    else if (box.scrollTop < EDGE && begin > 0) move(Math.max(end - STEP, MOST));
    else if (box.scrollTop < EDGE && talk.more && !asking.current) {
      asking.current = true;
      onEarlier().finally(() => {
        asking.current = false;
      });
    }
  };
  useEffect(() => {
    if (!view.current.atEnd) scrolled(); // an earlier page came, and one may stand at its end already
  }, [messages.length]);
  const toEnd = () => {
    view.current.atEnd = true;
    setLast("");
    setAtEnd(true);
    hold();
  };
  return { log, lines, atEnd, shown: messages.slice(begin, end), toEnd, scrolled };
}

/**
 * @param {object} props
 * @param {Talk} props.talk
 * @param {Persona} props.persona
 * @param {Acts} props.acts
 * @param {() => Promise<unknown>} props.onEarlier
 * @param {any} props.children what stands below the messages
 */
export function Log({ talk, persona, acts, onEarlier, children }) {
  const { log, lines, atEnd, shown, toEnd, scrolled } = usePart(talk, onEarlier);
  const drawn = useRef(/** @type {Map<string, {of: any[], node: any}>} */ (new Map()));

  /** @type {typeof drawn.current} */
  const now = new Map();
  /** @type {Record<number, MessageForm>} the person's message that each turn answered last */
  const owns = {};
  for (const each of shown) if (each.role === "user") owns[each.turn] = each;
  const nodes = shown.map((message, at) => {
    const before = shown[at - 1];
    const after = shown[at + 1];
    const gap = message.at > 0 && Math.abs(message.at - (before?.at || message.at)) > 3600;
    const begins = before?.role !== message.role || gap;
    const ends = after?.turn !== message.turn || after.role !== message.role;
    const own = message.role === "user" ? message : message.turn > 0 ? owns[message.turn] : undefined;
    // A line that is as it was is not drawn again: the others need not wait for it while one grows.
    const of = [message, talk.turns[message.turn], gap, begins, ends, own, talk.waiting, persona];
    const known = drawn.current.get(message.id);
    const node = known?.of.every((each, index) => each === of[index])
      ? known.node
      : html`<${Line}
          key=${message.id}
          message=${message}
          persona=${persona}
          turn=${talk.turns[message.turn]}
          day=${gap ? message.at : 0}
          begins=${begins}
          ends=${ends}
          busy=${talk.waiting}
          own=${own}
          acts=${acts}
        />`;
    now.set(message.id, { of, node });
    return node;
  });
  drawn.current = now;

  const last = talk.messages.at(-1);
  const writes = talk.waiting && !last?.growing && !talk.questions.length;
  return html`<div class="log-frame">
    <div class="log" ref=${log} onScroll=${scrolled} tabindex="0" role="region" aria-label=${t("talk.log")}>
      <div class="lines" ref=${lines} role="log" aria-live="polite" aria-relevant="additions">
        ${talk.more && html`<button class="bare small" onClick=${onEarlier}>${t("talk.earlier")}</button>`}
        ${nodes}
      </div>
      ${talk.questions.map((each) => html`<${Ask} key=${each.id} question=${each} onAnswer=${acts.answer} />`)}
      ${
        writes &&
        html`<p class="writes">
          <${Face} persona=${persona} kind="small" />
          <span class="dots" aria-hidden="true"></span>
          <span class=${talk.doing ? "small soft" : "unseen"}
            >${talk.doing || t("talk.writes", { name: persona.name })}</span
          >
        </p>`
      }
      ${children}
      ${talk.loaded && !talk.messages.length && html`<${Invitation} persona=${persona} onSay=${acts.say} />`}
    </div>
    ${!atEnd && html`<button class="to-end quiet" onClick=${toEnd} aria-label=${t("talk.toEnd")}>↓</button>`}
  </div>`;
}

/** One message with what can be done with it.
 * @param {{message: MessageForm, persona: Persona, turn: import("./conversation.js").Turn | undefined, day: number,
 *   begins: boolean, ends: boolean, busy: boolean, own: MessageForm | undefined, acts: Acts}} props
 */
function Line({ message, persona, turn, day, begins, ends, busy, own, acts }) {
  const isOwn = message.role === "user";
  const settled = ends && !message.growing && !message.fate && !busy;
  const actions =
    settled &&
    html`<span class="actions">
      ${message.siblings.length > 1 && html`<${Branches} message=${message} onBranch=${acts.branch} />`}
      ${isOwn && html`<button class="bare small" onClick=${() => acts.edit(message)}>${t("talk.edit")}</button>`}
      ${
        !isOwn &&
        own &&
        html`<button class="bare small" onClick=${() => acts.again(own)} title=${t("talk.againAbout")}>
          ${t("talk.again")}
        </button>`
      }
    </span>`;
  const unsent =
    message.fate === "failed" &&
    html`<div class="unsent small" role="alert">
      <span class="bad">${t("talk.failed")} ${message.why || t("shared.offline")}</span>
      <button class="bare small" onClick=${() => acts.retry(message)}>${t("shared.again")}</button>
      <button class="bare small" onClick=${() => acts.drop(message)}>${t("talk.drop")}</button>
    </div>`;
  const kind = [isOwn && "own", begins && "begins", ends && "ends"].filter(Boolean).join(" ");
  return html`<div class=${`line ${kind}`}>
    ${day > 0 && html`<p class="day small soft">${moment(day)}</p>`}
    ${!isOwn && begins && html`<${Face} persona=${persona} kind="small" />`}
    <${Said} message=${message} from=${isOwn ? t("talk.you") : persona.name}>
      ${unsent}
      ${
        ends &&
        !message.fate &&
        (actions || message.at > 0) &&
        html`<footer class="small soft">
          ${
            message.at > 0 &&
            html`<time dir="auto" datetime=${new Date(message.at * 1000).toISOString()}
              >${moment(message.at)}</time
            >`
          }
          ${actions}
        </footer>`
      }
    <//>
    ${!isOwn && ends && turn && turn.sources.length > 0 && html`<${Sources} of=${turn.sources} />`}
  </div>`;
}

/** Which of several stands here, and the way to the others.
 * @param {{message: MessageForm, onBranch: (turn: number) => void}} props
 */
function Branches({ message, onBranch }) {
  const { siblings, turn } = message;
  const at = Math.max(siblings.indexOf(turn), 0);
  /** @param {number} to @param {string} label @param {string} sign */
  const step = (to, label, sign) =>
    html`<button
      class="bare small"
      aria-label=${label}
      disabled=${siblings[to] === undefined}
      onClick=${() => onBranch(/** @type {number} */ (siblings[to]))}
    >
      ${sign}
    </button>`;
  return html`<span class="branches" role="group" aria-label=${t("talk.branches")}>
    ${step(at - 1, t("talk.before"), "‹")}
    <span>${at + 1} / ${siblings.length}</span>
    ${step(at + 1, t("talk.after"), "›")}
  </span>`;
}

/** @param {{of: {title: string, url: string}[]}} props */
const Sources = ({ of }) =>
  html`<details class="sources small">
    <summary>${t("talk.sources", { count: of.length })}</summary>
    <ol>
      ${of.map((each) => {
        const href = safeLink(each.url);
        const words = each.title || each.url;
        return html`<li dir="auto">
          ${href ? html`<a href=${href} target="_blank" rel="noopener noreferrer nofollow ugc">${words}</a>` : words}
        </li>`;
      })}
    </ol>
  </details>`;

/** A question before something is done.
 * @param {{question: import("./conversation.js").Question, onAnswer: (id: string, approved: boolean) => void}} props
 */
const Ask = ({ question, onAnswer }) =>
  html`<section class="ask" role="alertdialog" aria-label=${t("talk.question")}>
    <p dir="auto"><strong>${question.does}</strong></p>
    ${question.arguments && html`<pre class="small" dir="auto">${question.arguments}</pre>`}
    <div class="row">
      <button onClick=${() => onAnswer(question.id, true)}>${t("talk.yes")}</button>
      <button class="quiet" onClick=${() => onAnswer(question.id, false)}>${t("talk.no")}</button>
      <span class="small soft">${t("talk.until", { time: moment(question.expires) })}</span>
    </div>
  </section>`;

/** @param {{persona: Persona, onSay: (text: string) => void}} props */
function Invitation({ persona, onSay }) {
  const own = persona.starters;
  const openers = own.length ? own : ["first", "second", "third"].map((each) => t(`talk.openers.${each}`));
  return html`<div class="invitation">
    <${Face} persona=${persona} kind="large" />
    <h2 dir="auto">${persona.name}</h2>
    ${persona.about && html`<p class="soft" dir="auto">${persona.about}</p>`}
    <p class="unseen">${t("talk.invite", { name: persona.name })}</p>
    <div class="starters">
      ${openers.map((text) => html`<button class="quiet" dir="auto" onClick=${() => onSay(text)}>${text}</button>`)}
    </div>
  </div>`;
}
