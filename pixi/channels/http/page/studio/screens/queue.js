// What waits for somebody's yes: drafts that people submitted, and questions that personas ask people.
import { html, useLayoutEffect, useRef, useState } from "../../lib/html.js";
import { get, put } from "../../lib/api.js";
import { safeLink } from "../../lib/markdown.js";
import { asProblem, Empty, Loaded, Time, Trouble, useLoaded, useNotice } from "../../lib/parts.js";
import { ago, number, t } from "../../lib/words.js";
import { asking, Choose, Lock, personPath, talkPath, useFilters } from "../listing.js";

const QUEUE = "/api/studio/queue";
const AGAIN = 5000; // ms after which is looked for new questions
const FIRST = "pending_approval";
const STATES = [FIRST, "approved", "rejected", "all"];

/** @typedef {{_id: string, name: string, type: string, status: string, city: string, state: string,
 *   country: string, latitude: number | null, longitude: number | null, description: string, mapsUrl: string,
 *   submittedBy: string, submittedVia: string, createdAt: number, decidedBy: string, decidedAt: number,
 *   reason: string}} Draft */

/** @param {{query: URLSearchParams}} props */
export default function QueueScreen({ query }) {
  const loaded = useLoaded(QUEUE);
  const [asked, ask] = useFilters(query, ["status"]);
  const [questions, setQuestions] = useState(/** @type {any[] | null} */ (null));
  useLayoutEffect(() => {
    const look = () =>
      get(QUEUE).then(
        (answer) => setQuestions(answer.questions),
        () => {},
      );
    const timer = setInterval(() => document.hidden || look(), AGAIN);
    return () => clearInterval(timer);
  }, []);
  const status = asked["status"] || FIRST;
  return html`<div class="sheet">
    <header class="screen-head">
      <h1>${t("queue.title")}</h1>
      ${
        loaded.data?.drafts &&
        html`<${Choose}
          value=${status}
          label=${t("queue.status")}
          choices=${STATES.map((each) => [each, t(`queue.state.${each}`)])}
          onChoose=${(/** @type {string} */ value) => ask({ status: value === FIRST ? "" : value })}
        />`
      }
    </header>
    <${Loaded} of=${loaded}>
      ${(/** @type {any} */ queue) => {
        const open = questions ?? queue.questions;
        return html`${open.length > 0 && html`<${Questions} asked=${open} />`}
        ${
          queue.drafts
            ? html`<${Drafts} status=${status} named=${open.length > 0} />`
            : !open.length &&
              html`<${Empty} title=${t("queue.nothing")}><p>${t("queue.without_companion")}</p><//>`
        }`;
      }}
    <//>
  </div>`;
}

/** Questions that wait: each is the asked person's to answer. @param {{asked: any[]}} props */
const Questions = ({ asked }) =>
  html`<section class="part questions">
    <h2>${t("queue.questions")}</h2>
    <p class="soft small">${t("queue.theirs")}</p>
    <ul class="lines">
      ${asked.map(
        (each) =>
          html`<li key=${each.id} class="line">
            <p>
              <bdi class="name">${each.persona}</bdi> ${t("queue.wants")} <code>${each.tool}</code>
              <span class="soft" dir="auto"> ${each.does}</span>
            </p>
            ${
              each.hidden
                ? html`<p class="soft small"><${Lock} /> ${t("talks.private")}</p>`
                : html`<pre dir="auto">${each.arguments}</pre>`
            }
            <p class="soft small facts">
              ${
                each.person &&
                html`<a href=${personPath(each.person.id)}
                  ><bdi>${each.person.name || each.person.id}</bdi></a
                >`
              }
              <a href=${talkPath(each.conversation)}>${t("queue.talk")}</a>
              <span>${t("queue.until")} <${Time} at=${each.expires}>${ago(each.expires)}<//></span>
            </p>
          </li>`,
      )}
    </ul>
  </section>`;

/** Spots that people submitted. `named`: under a heading. @param {{status: string, named: boolean}} props */
function Drafts({ status, named }) {
  const loaded = useLoaded(asking(`${QUEUE}/drafts`, { status, limit: "500" }));
  return html`<section>
    ${named && html`<h2>${t("queue.drafts")}</h2>`}
    <${Loaded} of=${loaded}>
      ${(/** @type {{drafts: Draft[]}} */ { drafts }) =>
        drafts.length
          ? html`<${DraftList} key=${status} first=${drafts} />`
          : html`<${Empty} title=${t(status === FIRST ? "queue.nothing" : "queue.none")} />`}
    <//>
  </section>`;
}

/** Drafts, gone through by keys: j and k move, a approves, r asks for the reason of a no.
 * @param {{first: Draft[]}} props
 */
function DraftList({ first }) {
  const [drafts, setDrafts] = useState(first);
  const [at, setAt] = useState(-1);
  const [rejects, setRejects] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [notice, say] = useNotice();
  const list = useRef(/** @type {HTMLOListElement | null} */ (null));

  /** @param {number} place */
  const focus = (place) => {
    const next = Math.max(0, Math.min(place, drafts.length - 1));
    setAt(next);
    const line = list.current?.children[next];
    if (line instanceof HTMLElement) line.focus();
  };
  /** @param {Draft} draft @param {"approve" | "reject"} how @param {string} [reason] */
  const decide = (draft, how, reason = "") => {
    setProblem(null);
    put(`${QUEUE}/drafts/${encodeURIComponent(draft._id)}/${how}`, how === "reject" ? { reason } : {}).then(
      (decided) => {
        setDrafts((known) => known.map((each) => (each._id === draft._id ? decided : each)));
        setRejects("");
        say(t(`queue.was.${how}`, { name: draft.name }));
        const waits = drafts.findIndex((each, place) => place > at && isOpen(each));
        if (waits >= 0) focus(waits);
      },
      (error) => setProblem(asProblem(error)),
    );
  };
  useLayoutEffect(() => {
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      const inField =
        event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
      if (inField || event.metaKey || event.ctrlKey || event.altKey) return;
      const draft = drafts[at];
      if (event.key === "j") focus(at + 1);
      else if (event.key === "k") focus(at - 1);
      else if (event.key === "a" && draft && isOpen(draft)) decide(draft, "approve");
      else if (event.key === "r" && draft && isOpen(draft)) setRejects(draft._id);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  return html`<p class="soft small keys">
      <kbd>j</kbd> <kbd>k</kbd> ${t("queue.keys.move")} · <kbd>a</kbd> ${t("queue.approve")} ·
      <kbd>r</kbd>${" "} ${t("queue.reject")}
    </p>
    <${Trouble} problem=${problem} />
    <ol class="lines drafts" ref=${list} aria-label=${t("queue.drafts")}>
      ${drafts.map(
        (draft, place) =>
          html`<li
            key=${draft._id}
            class="line draft"
            tabindex="-1"
            aria-current=${place === at ? "true" : null}
            onFocusCapture=${() => setAt(place)}
          >
            <${DraftShown} draft=${draft} />
            ${
              isOpen(draft) &&
              (rejects === draft._id
                ? html`<${Reject}
                    onReject=${(/** @type {string} */ reason) => decide(draft, "reject", reason)}
                    onCancel=${() => setRejects("")}
                  />`
                : html`<div class="row">
                    <button class=${place === at ? "" : "quiet"} onClick=${() => decide(draft, "approve")}>
                      ${t("queue.approve")}
                    </button>
                    <button class="danger" onClick=${() => setRejects(draft._id)}>
                      ${t("queue.reject")}
                    </button>
                  </div>`)
            }
          </li>`,
      )}
    </ol>
    ${notice}`;
}

/** @param {Draft} draft */
const isOpen = (draft) => draft.status === FIRST;

/** @param {{onReject: (reason: string) => void, onCancel: () => void}} props */
function Reject({ onReject, onCancel }) {
  const [reason, setReason] = useState("");
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useLayoutEffect(() => field.current?.focus(), []);
  /** @param {Event} event */
  const reject = (event) => {
    event.preventDefault();
    onReject(reason.trim());
  };
  return html`<form class="row" onSubmit=${reject}>
    <input
      ref=${field}
      class="grow"
      dir="auto"
      maxlength="500"
      aria-label=${t("queue.reason")}
      placeholder=${t("queue.reason")}
      value=${reason}
      onInput=${(/** @type {any} */ event) => setReason(event.target.value)}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && onCancel()}
    />
    <button class="danger">${t("queue.reject")}</button>
    <button type="button" class="quiet" onClick=${onCancel}>${t("shared.cancel")}</button>
  </form>`;
}

/** @param {{draft: Draft}} props */
function DraftShown({ draft }) {
  const place = [draft.city, draft.state, draft.country].filter(Boolean).join(", ");
  const via = draft.submittedVia;
  const state = { approved: "good", rejected: "bad" }[draft.status] ?? "";
  return html`<div class="draft-text">
    <h2 dir="auto">${draft.name}</h2>
    <p class="facts small">
      <span class="badge">${draft.type}</span>
      ${!isOpen(draft) && html`<span class=${`badge ${state}`}>${t(`queue.state.${draft.status}`)}</span>`}
      ${place && html`<span dir="auto">${place}</span>`}
      <${MapLink} draft=${draft} />
    </p>
    ${draft.description && html`<p dir="auto">${draft.description}</p>`}
    <p class="soft small facts">
      <a href=${personPath(draft.submittedBy)}><bdi>${draft.submittedBy || t("queue.somebody")}</bdi></a>
      ${via && html`<span dir="auto">${via}</span>`}
      ${draft.createdAt > 0 && html`<${Time} at=${draft.createdAt}>${ago(draft.createdAt)}<//>`}
    </p>
    ${
      !isOpen(draft) &&
      html`<p class="soft small" dir="auto">
        ${t("queue.decided", { by: draft.decidedBy })}${draft.reason && `: ${draft.reason}`}
      </p>`
    }
  </div>`;
}

/** Where a spot is on a map: the link that was sent, or one to its coordinates. @param {{draft: Draft}} props */
function MapLink({ draft }) {
  const { latitude: lat, longitude: lon } = draft;
  const known = lat !== null && lon !== null;
  const at = known ? `https://www.openstreetmap.org/?mlat=${lat}&mlon=${lon}#map=17/${lat}/${lon}` : "";
  const href = safeLink(draft.mapsUrl) || at;
  const digits = { minimumFractionDigits: 4, maximumFractionDigits: 4 };
  const words = known ? `${number(lat, digits)}, ${number(lon, digits)}` : t("queue.map");
  return href
    ? html`<a href=${href} target="_blank" rel="noopener noreferrer nofollow ugc">${words}</a>`
    : null;
}
