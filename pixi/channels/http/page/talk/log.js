// What was said, as far as one looks: the end stays in sight unless one reads further up.
//
// Of a long talk only a part is in the page: the last messages, and some more each time one reads up to the
// beginning of them. What is drawn keeps its place while something is put before it.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { safeLink } from "../lib/markdown.js";
import { moment, t } from "../lib/words.js";
import { Face, Said } from "./message.js";

/**
 * @typedef {import("./conversation.js").Talk} Talk
 * @typedef {import("./conversation.js").Message} MessageForm
 * @typedef {import("./message.js").Persona} Persona
 */

const STEP = 80; // messages that are drawn at first, and more each time
const NEAR = 80; // pixels from the end that count as the end

/**
 * @param {object} props
 * @param {Talk} props.talk
 * @param {Persona} props.persona
 * @param {(text: string) => void} props.onSay
 * @param {(message: MessageForm) => void} props.onAgain
 * @param {(message: MessageForm) => void} props.onEdit
 * @param {(turn: number) => void} props.onBranch
 * @param {(question: string, approved: boolean) => void} props.onAnswer
 * @param {() => Promise<void>} props.onEarlier
 * @param {any} props.children what stands below the messages
 */
export function Log({ talk, persona, onSay, onAgain, onEdit, onBranch, onAnswer, onEarlier, children }) {
  const log = useRef(/** @type {HTMLElement | null} */ (null));
  const view = useRef({ atEnd: true, height: 0, first: "" });
  const asking = useRef(false);
  const [most, setMost] = useState(STEP);
  const [atEnd, setAtEnd] = useState(true);
  const shown = talk.messages.slice(-most);

  useLayoutEffect(() => {
    const box = log.current;
    if (!box) return;
    const first = shown[0]?.id ?? "";
    if (view.current.atEnd) box.scrollTop = box.scrollHeight;
    else if (view.current.first !== first) box.scrollTop += box.scrollHeight - view.current.height;
    view.current = { ...view.current, height: box.scrollHeight, first };
  });
  useEffect(() => {
    // Pictures that come, and a keyboard that opens, change the height too.
    const box = log.current;
    if (!box) return undefined;
    const held = new ResizeObserver(() => {
      if (view.current.atEnd) box.scrollTop = box.scrollHeight;
      view.current.height = box.scrollHeight;
    });
    held.observe(box);
    for (const child of box.children) held.observe(child);
    return () => held.disconnect();
  }, []);

  const scrolled = () => {
    const box = log.current;
    if (!box) return;
    const near = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
    view.current.atEnd = near;
    setAtEnd(near);
    if (near && most > STEP) setMost(STEP);
    if (box.scrollTop > 300 || asking.current) return;
    if (most < talk.messages.length) setMost(most + STEP);
    else if (talk.more) {
      asking.current = true;
      onEarlier().finally(() => {
        asking.current = false;
        setMost((now) => now + STEP);
      });
    }
  };
  const toEnd = () => {
    view.current.atEnd = true;
    setMost(STEP);
    setAtEnd(true);
    if (log.current) log.current.scrollTop = log.current.scrollHeight;
  };

  const last = talk.messages.at(-1);
  const writes = talk.waiting && !last?.growing && !talk.questions.length;
  return html`<div class="log-frame">
    <div class="log" ref=${log} onScroll=${scrolled} tabindex="0" role="region" aria-label=${t("talk.log")}>
      <div class="lines" role="log" aria-live="polite" aria-relevant="additions">
        ${talk.more && html`<p class="waiting small">${t("shared.loading")}</p>`}
        ${shown.map((message, at) => {
          const before = shown[at - 1];
          const gap = Math.abs(message.at - (before?.at || message.at)) > 3600 && message.at > 0;
          return html`<${Line}
            key=${message.id}
            message=${message}
            persona=${persona}
            turn=${talk.turns[message.turn]}
            day=${gap ? message.at : 0}
            begins=${before?.role !== message.role || gap}
            ends=${shown[at + 1]?.turn !== message.turn || shown[at + 1]?.role !== message.role}
            busy=${talk.waiting}
            onAgain=${onAgain}
            onEdit=${onEdit}
            onBranch=${onBranch}
            own=${ownOf(talk, message)}
          />`;
        })}
      </div>
      ${talk.questions.map((each) => html`<${Ask} key=${each.id} question=${each} onAnswer=${onAnswer} />`)}
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
      ${talk.loaded && !talk.messages.length && html`<${Invitation} persona=${persona} onSay=${onSay} />`}
    </div>
    ${!atEnd && html`<button class="to-end quiet" onClick=${toEnd} aria-label=${t("talk.toEnd")}>↓</button>`}
  </div>`;
}

/** The person's message that a turn answered last. @param {Talk} talk @param {MessageForm} message */
const ownOf = (talk, message) =>
  message.role === "user"
    ? message
    : talk.messages.findLast(
        (each) => each.role === "user" && each.turn === message.turn && message.turn > 0,
      );

/** One message with what can be done with it.
 * @param {any} props
 */
function Line({ message, persona, turn, day, begins, ends, busy, onAgain, onEdit, onBranch, own }) {
  const isOwn = message.role === "user";
  const settled = !message.growing && !message.fate && !busy;
  const actions =
    settled && ends
      ? html`<span class="actions">
          ${message.siblings.length > 1 && html`<${Branches} message=${message} onBranch=${onBranch} />`}
          ${isOwn && html`<button class="bare small" onClick=${() => onEdit(message)}>${t("talk.edit")}</button>`}
          ${
            !isOwn &&
            own &&
            html`<button class="bare small" onClick=${() => onAgain(own)} title=${t("talk.againAbout")}>
              ${t("talk.again")}
            </button>`
          }
        </span>`
      : null;
  return html`<div class=${`line ${isOwn ? "own" : ""} ${begins ? "begins" : ""}`}>
    ${day > 0 && html`<p class="day small soft">${moment(day)}</p>`}
    ${!isOwn && begins && html`<${Face} persona=${persona} kind="small" />`}
    <${Said} message=${message} actions=${actions} from=${isOwn ? t("talk.you") : persona.name} />
    ${!isOwn && ends && turn?.sources.length > 0 && html`<${Sources} of=${turn.sources} />`}
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
const Invitation = ({ persona, onSay }) =>
  html`<div class="invitation">
    <${Face} persona=${persona} kind="large" />
    <h2 dir="auto">${persona.name}</h2>
    ${persona.about && html`<p class="soft" dir="auto">${persona.about}</p>`}
    <p>${t("talk.invite", { name: persona.name })}</p>
    ${
      persona.starters.length > 0 &&
      html`<div class="starters">
        ${persona.starters.map((text) => html`<button class="quiet" dir="auto" onClick=${() => onSay(text)}>${text}</button>`)}
      </div>`
    }
  </div>`;
