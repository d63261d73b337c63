// What the widget shows: a button, and the talk behind it.
import { server } from "../lib/api.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { markdown, safeLink } from "../lib/markdown.js";
import { t } from "../lib/words.js";

/**
 * @typedef {import("../talk/conversation.js").Talk} Talk
 * @typedef {import("../talk/conversation.js").Message} Message
 * @typedef {{id: string, name: string, about: string, avatar: string, starters: string[]}} Persona
 *
 * @typedef {object} Shown
 * @property {boolean} open
 * @property {boolean} byHand somebody has just opened or closed it
 * @property {boolean} framed it fills the place that it has, and has no button
 * @property {number} unread
 * @property {Persona | null} persona
 * @property {Talk} talk
 * @property {"" | "coming" | "lost" | "refused"} state of the connection
 * @property {string} trouble
 *
 * @typedef {object} Acts
 * @property {(open: boolean) => void} toggle
 * @property {(text: string) => Promise<boolean>} say
 * @property {(id: string) => void} retry
 * @property {() => void} stop
 * @property {() => void} reset
 * @property {() => void} earlier
 * @property {() => void} enter
 */

/** @param {{shown: Shown, acts: Acts}} props */
export function Widget({ shown, acts }) {
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const wasOpen = useRef(shown.open);
  useEffect(() => {
    if (wasOpen.current && !shown.open) button.current?.focus();
    wasOpen.current = shown.open;
  }, [shown.open]);
  const label = shown.unread ? t("unread", { count: shown.unread }) : t("open");
  return html`
    ${(shown.open || shown.framed) && html`<${Panel} shown=${shown} acts=${acts} />`}
    ${
      !shown.framed &&
      html`<button
        ref=${button}
        class="launcher"
        part="launcher"
        aria-expanded=${String(shown.open)}
        aria-label=${shown.open ? t("close") : label}
        onClick=${() => acts.toggle(!shown.open)}
      >
        <${Sign} open=${shown.open} />
        ${shown.unread > 0 && !shown.open && html`<span class="unread" aria-hidden="true">${shown.unread}</span>`}
      </button>`
    }
  `;
}

/** @param {{shown: Shown, acts: Acts}} props */
function Panel({ shown, acts }) {
  const { persona, talk } = shown;
  const name = persona?.name ?? "";
  /** @param {KeyboardEvent} event */
  const keyed = (event) => {
    if (event.key === "Escape" && !shown.framed) {
      event.stopPropagation();
      acts.toggle(false);
    }
  };
  return html`<section
    class="panel"
    part="panel"
    role="dialog"
    aria-label=${t("with", { name })}
    onKeyDown=${keyed}
  >
    <header>
      ${persona && html`<${Face} persona=${persona} />`}
      <div class="who">
        <h2 dir="auto">${name || t("loading")}</h2>
        ${persona?.about && html`<p class="soft small" dir="auto">${persona.about}</p>`}
      </div>
      ${talk.messages.length > 0 && html`<${Reset} onReset=${acts.reset} />`}
      ${
        !shown.framed &&
        html`<button class="bare" aria-label=${t("close")} onClick=${() => acts.toggle(false)}>
          <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M6 6l12 12M18 6L6 18" /></svg>
        </button>`
      }
    </header>
    <${Log} shown=${shown} acts=${acts} />
    <${Condition} shown=${shown} acts=${acts} />
    <${Composer} shown=${shown} acts=${acts} />
  </section>`;
}

/** Begins anew, when it was asked twice.
 * @param {{onReset: () => void}} props
 */
function Reset({ onReset }) {
  const [asked, setAsked] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(false), 4000);
    return () => clearTimeout(timer);
  }, [asked]);
  const again = () => {
    setAsked(!asked);
    if (asked) onReset();
  };
  return asked
    ? html`<button class="danger small" onClick=${again}>${t("really")}</button>`
    : html`<button class="bare" aria-label=${t("reset")} title=${t("reset")} onClick=${again}>
        <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M5 12a7 7 0 1 0 2.1-5M5 4v4h4" /></svg>
      </button>`;
}

/** What was said, with the end in sight unless one reads further up.
 * @param {{shown: Shown, acts: Acts}} props
 */
function Log({ shown, acts }) {
  const { talk, persona } = shown;
  const log = useRef(/** @type {HTMLElement | null} */ (null));
  const before = useRef({ atEnd: true, height: 0, first: "" });
  useLayoutEffect(() => {
    const box = log.current;
    if (!box) return;
    const first = talk.messages[0]?.id ?? "";
    const grew = box.scrollHeight - before.current.height;
    if (before.current.atEnd) box.scrollTop = box.scrollHeight;
    else if (before.current.first && first !== before.current.first) box.scrollTop += grew;
    before.current = { ...before.current, height: box.scrollHeight, first };
  });
  const scrolled = () => {
    const box = log.current;
    if (!box) return;
    before.current.atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 48;
    if (box.scrollTop < 200 && talk.more) acts.earlier();
  };
  const writes = talk.waiting && !talk.messages.at(-1)?.growing && shown.state !== "refused";
  const invites = talk.loaded && !talk.messages.length && persona;
  return html`<div
    class="log"
    ref=${log}
    role="log"
    aria-live="polite"
    tabindex="0"
    aria-label=${t("log")}
    onScroll=${scrolled}
  >
    ${invites && html`<${Invitation} persona=${persona} acts=${acts} />`}
    ${talk.messages.map((message) => html`<${Said} key=${message.id} message=${message} acts=${acts} />`)}
    ${
      writes &&
      html`<p class="writes">
        <span class="dots" aria-hidden="true"></span
        ><span class="unseen">${t("writes", { name: persona?.name ?? "" })}</span>
      </p>`
    }
  </div>`;
}

/** @param {{persona: Persona, acts: Acts}} props */
const Invitation = ({ persona, acts }) =>
  html`<div class="invitation">
    <${Face} persona=${persona} />
    <p dir="auto">${t("invite", { name: persona.name })}</p>
    ${persona.starters.map(
      (text) => html`<button class="quiet" dir="auto" onClick=${() => acts.say(text)}>${text}</button>`,
    )}
  </div>`;

/** @param {{message: Message, acts: Acts}} props */
function Said({ message, acts }) {
  const { text, cards, picture, reactions } = message;
  const own = message.role === "user";
  return html`<article
    class=${own ? "said own" : "said"}
    data-fate=${message.fate}
    aria-busy=${String(message.growing)}
  >
    <span class="unseen">${own ? t("you") : ""}</span>
    ${text && html`<div class="words" dir="auto">${own ? text : markdown(text)}</div>`}
    ${message.attachments.map((each) => html`<p class="small soft" dir="auto">${each.name}</p>`)}
    ${cards.map((card) => html`<${Card} card=${card} pictures=${message.pictures} />`)}
    ${picture && html`<${Image} words=${picture.text} address=${picture.link} pictures=${message.pictures} />`}
    ${picture?.service && html`<p class="small soft">Powered by ${picture.service}</p>`}
    ${
      reactions.length > 0 &&
      html`<p class="reactions">
        ${reactions.map((each) => html`<span key=${each.id}>${each.emoji}</span>`)}
      </p>`
    }
    ${
      message.fate === "failed" &&
      html`<button class="danger small" onClick=${() => acts.retry(message.id)}>${t("failed")}</button>`
    }
  </article>`;
}

/** A card by its fallback; where it lists things, each with its picture.
 * @param {{card: import("../talk/conversation.js").Card, pictures: Record<string, string>}} props
 */
function Card({ card, pictures }) {
  const { title, text, fields, picture, link } = card.fallback;
  const items = Array.isArray(card.data) && card.data.length === fields.length ? card.data : [];
  const href = link && safeLink(link);
  return html`<div class="card">
    ${picture && html`<${Image} words="" address=${picture} pictures=${pictures} />`}
    ${
      title &&
      html`<h3 dir="auto">
        ${href ? html`<a href=${href} target="_blank" rel="noopener noreferrer nofollow ugc">${title}</a>` : title}
      </h3>`
    }
    ${text && html`<p dir="auto">${text}</p>`}
    ${
      fields.length > 0 &&
      html`<dl>
        ${fields.map(
          (field, at) =>
            html`<div dir="auto">
              ${items[at]?.imageUrl && html`<${Image} words="" address=${items[at].imageUrl} pictures=${pictures} />`}
              <dt>${field.name}</dt>
              <dd>${field.value}</dd>
            </div>`,
        )}
      </dl>`
    }
  </div>`;
}

/** A picture, from the server of the talk alone; one that cannot be drawn is told of by its words.
 * @param {{words: string, address: string, pictures: Record<string, string>}} props
 */
function Image({ words, address, pictures }) {
  const [failed, setFailed] = useState(false);
  const ours = Object.hasOwn(pictures, address) ? pictures[address] : "";
  if (ours && !failed) {
    return html`<img
      src=${server.origin + ours}
      alt=${words}
      loading="lazy"
      onError=${() => setFailed(true)}
    />`;
  }
  const href = safeLink(address);
  return words && href
    ? html`<p dir="auto">
        <a href=${href} target="_blank" rel="noopener noreferrer nofollow ugc">${words}</a>
      </p>`
    : null;
}

/** @param {{persona: Persona}} props */
function Face({ persona }) {
  const [failed, setFailed] = useState(false);
  return persona.avatar && !failed
    ? html`<img class="face" src=${server.origin + persona.avatar} alt="" onError=${() => setFailed(true)} />`
    : html`<span class="face" aria-hidden="true">${[...persona.name][0] ?? "?"}</span>`;
}

/** How things stand, where they do not stand well.
 * @param {{shown: Shown, acts: Acts}} props
 */
function Condition({ shown, acts }) {
  const words = { "": "", coming: "", lost: t("lost"), refused: t("unavailable") }[shown.state];
  const told = shown.trouble || shown.talk.trouble || words;
  if (!told) return null;
  return html`<div class="condition small" role="status">
    <span dir="auto">${told}</span>
    ${shown.state === "refused" && html`<button class="quiet" onClick=${acts.enter}>${t("again")}</button>`}
  </div>`;
}

/** @param {{shown: Shown, acts: Acts}} props */
function Composer({ shown, acts }) {
  const [text, setText] = useState("");
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => {
    if (shown.byHand) area.current?.focus();
  }, []);
  useLayoutEffect(() => {
    if (!area.current) return;
    area.current.style.blockSize = "auto";
    area.current.style.blockSize = `${Math.min(area.current.scrollHeight + 2, 140)}px`;
  }, [text]);
  const send = async () => {
    const said = text.trim();
    if (!said || shown.state === "refused") return;
    setText("");
    if (!(await acts.say(said))) setText((now) => now || said);
  };
  /** @param {KeyboardEvent} event */
  const keyed = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  const writing = shown.talk.turn > 0;
  return html`<form
    class="composer"
    onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      send();
    }}
  >
    <textarea
      ref=${area}
      rows="1"
      dir="auto"
      maxlength="32000"
      aria-label=${t("message")}
      placeholder=${t("message")}
      value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)}
      onKeyDown=${keyed}
    ></textarea>
    ${
      writing && !text.trim()
        ? html`<button type="button" class="quiet" aria-label=${t("stop")} onClick=${acts.stop}>
            <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M8 8h8v8H8z" /></svg>
          </button>`
        : html`<button type="submit" aria-label=${t("send")} disabled=${!text.trim()}>
            <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 19V6M6 12l6-6 6 6" /></svg>
          </button>`
    }
  </form>`;
}

/** @param {{open: boolean}} props */
const Sign = ({ open }) =>
  html`<svg viewBox="0 0 24 24" aria-hidden="true">
    <path d=${open ? "M6 9l6 6 6-6" : "M4 5h16v11H11l-4.5 3.5V16H4z"} />
  </svg>`;
