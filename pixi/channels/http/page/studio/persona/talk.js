// A talk with the text as it stands in the editor. Nothing of it is kept.
import { eventsIn, Problem, remove, request } from "../../lib/api.js";
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { markdown } from "../../lib/markdown.js";
import { asProblem, Trouble } from "../../lib/parts.js";
import { number, t } from "../../lib/words.js";

/** @typedef {{id: string, kind: string, text: string, open?: boolean}} Said */

const MOST_SHOWN = 600; // characters of what a tool answered
let talks = 0;

/**
 * Take an event into what was said: a message that grows is replaced by the whole of it.
 * @param {Said[]} said
 * @param {any} event
 * @returns {Said[]}
 */
export function taken(said, event) {
  /** @param {Said} its */
  const put = (its) => {
    const place = said.findIndex((each) => each.id === its.id);
    return place < 0 ? [...said, its] : [...said.slice(0, place), its, ...said.slice(place + 1)];
  };
  const id = `${event.turn}.${event.id}`;
  const grown = said.find((each) => each.id === id)?.text ?? "";
  switch (event.event) {
    case "text":
      return put({ id, kind: event.name === "note" ? "note" : "send", text: grown + event.text, open: true });
    case "send":
    case "note":
      return put({ id, kind: event.event, text: event.text });
    case "react":
      return put({ id, kind: "react", text: event.emoji });
    case "card":
      return put({ id, kind: "other", text: event.title || t("persona.card") });
    case "picture":
      return put({ id, kind: "other", text: event.text || t("persona.picture") });
    case "command":
      return put({ id, kind: "other", text: `${event.name} ${event.argument}` });
    case "tool_call":
      return put({ id: `${id}c`, kind: "tool", text: `${event.name} ${event.arguments}` });
    case "tool_result":
      return put({ id: `${id}r`, kind: "tool", text: `${event.ok ? "→" : "✗"} ${shortened(event.result)}` });
    case "error":
      return put({ id: `${event.turn}.${event.seq}`, kind: "error", text: event.text });
    case "report":
      return [...said, { id: `report${said.length}`, kind: "report", text: reported(event) }];
    default:
      return said;
  }
}

/** @param {string} text */
const shortened = (text) => (text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text);

/** @param {any} report */
function reported(report) {
  const cost =
    report.cost === null
      ? ""
      : number(report.cost, { style: "currency", currency: "USD", maximumSignificantDigits: 2 });
  const parts = [
    t("persona.read_and_wrote", { read: report.prompt_tokens, wrote: report.completion_tokens }),
    cost,
    t("persona.seconds", { seconds: number(report.seconds, { maximumFractionDigits: 1 }) }),
  ];
  return parts.filter(Boolean).join(" · ");
}

/** @param {{name: string, title: string, text: string}} props */
export function DraftTalkView({ name, title, text }) {
  const path = `/api/studio/personas/${encodeURIComponent(name)}/draft/talk`;
  const [talk, setTalk] = useState(() => `page${(talks += 1)}-${Date.now()}`);
  const [said, setSaid] = useState(/** @type {Said[]} */ ([]));
  const [message, setMessage] = useState("");
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [stop, setStop] = useState(/** @type {AbortController | null} */ (null));
  const end = useRef(/** @type {HTMLElement | null} */ (null));

  useEffect(() => () => void remove(`${path}?talk=${talk}`).catch(() => {}), [talk, path]);
  useEffect(() => {
    if (said.length) end.current?.scrollIntoView({ block: "nearest" });
  }, [said]);

  /** @param {Event} event */
  const say = async (event) => {
    event.preventDefault();
    const words = message.trim();
    if (!words || stop) return;
    const aborting = new AbortController();
    setStop(aborting);
    setMessage("");
    setProblem(null);
    setSaid((before) => [...before, { id: `own${before.length}`, kind: "own", text: words }]);
    try {
      const answer = await request("POST", path, {
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ text, message: words, talk }),
        signal: aborting.signal,
      });
      for await (const { data } of eventsIn(answer)) {
        if (data.error) throw new Problem(422, "", data.error);
        setSaid((before) => taken(before, data));
      }
    } catch (error) {
      if (!aborting.signal.aborted) setProblem(asProblem(error));
    }
    setStop(null);
  };
  const anew = () => {
    stop?.abort();
    setSaid([]);
    setProblem(null);
    setTalk(`page${(talks += 1)}-${Date.now()}`);
  };
  return html`<div class="draft-talk">
    <div class="row">
      <p class="soft small fill">${t("persona.talk_about")}</p>
      ${said.length > 0 && html`<button class="quiet small" onClick=${anew}>${t("persona.talk_anew")}</button>`}
    </div>
    <div class="exchange" role="log" aria-live="polite" aria-label=${t("persona.talk")}>
      ${said.map(
        (each) =>
          html`<div
            key=${each.id}
            class=${`s-${each.kind}`}
            aria-busy=${each.open ? "true" : null}
            dir="auto"
          >
            ${each.kind === "send" || each.kind === "own" ? markdown(each.text) : each.text}
          </div>`,
      )}
      ${stop && !said.at(-1)?.open && html`<p class="waiting"><span class="dots" aria-hidden="true"></span></p>`}
      <div ref=${end}></div>
    </div>
    <${Trouble} problem=${problem} />
    <form class="composer" onSubmit=${say}>
      <textarea
        rows="1"
        dir="auto"
        aria-label=${t("persona.say_to", { name: title })}
        placeholder=${t("persona.say_to", { name: title })}
        value=${message}
        onInput=${(/** @type {any} */ event) => setMessage(event.target.value)}
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) void say(event);
        }}
      ></textarea>
      ${
        stop
          ? html`<button type="button" class="quiet" onClick=${() => stop.abort()}>
              ${t("persona.stop")}
            </button>`
          : html`<button disabled=${!message.trim()}>${t("persona.say")}</button>`
      }
    </form>
  </div>`;
}
