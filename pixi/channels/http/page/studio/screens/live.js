// Live: the raw stream of one talk as it is written, and what comes of it.
import { get } from "../../lib/api.js";
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { Empty, Time, Trouble, Waiting } from "../../lib/parts.js";
import { ago, t } from "../../lib/words.js";
import { placeOf } from "../live/figures.js";
import { told } from "../live/story.js";
import { TurnView } from "../live/turn.js";
import { go } from "../studio.js";
import { follow } from "../follow.js";

/**
 * @typedef {{conversation: string, persona: string, model: string, active: boolean, private: boolean,
 *   hidden: boolean, turns: number, turn: number, finish: string, began: number, last: number}} Talk
 */

/** @param {{path: string[], query: URLSearchParams}} props */
export default function LiveScreen({ path, query }) {
  const [talks, setTalks] = useState(/** @type {Talk[] | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [latest, setLatest] = useState("");
  const wanted = path[0] ?? "";
  const persona = query.get("persona") ?? "";
  const place = query.get("place") ?? "";

  const load = () =>
    get("/api/studio/live").then(
      (answer) => {
        setTalks(answer.talks);
        setProblem(null);
      },
      (error) => setProblem(error),
    );
  useEffect(() => {
    load();
  }, []);

  const shown = (talks ?? []).filter(
    (talk) => (!persona || talk.persona === persona) && (!place || placeOf(talk.conversation) === place),
  );
  // Without a talk in the address the latest one is watched; another takes its place only once it rests.
  const current = shown.find((talk) => talk.conversation === latest);
  const next = current?.active ? current : (shown.find((talk) => !talk.hidden) ?? shown[0]);
  const conversation = wanted || (next?.conversation ?? "");
  useEffect(() => {
    if (!wanted) setLatest(conversation);
  }, [wanted, conversation]);

  /** A talk of which something was told without words. @param {any} event */
  const heard = (event) =>
    setTalks((before) => {
      const known = before?.find((talk) => talk.conversation === event.conversation);
      if (!known) load(); // whether it is in private the list knows
      const { kind: _, ...news } = event;
      return before && known ? [{ ...known, ...news }, ...before.filter((talk) => talk !== known)] : before;
    });

  /** @param {string} name @param {string} value */
  const filter = (name, value) => {
    const asked = new URLSearchParams(query);
    if (value) asked.set(name, value);
    else asked.delete(name);
    go(`/studio/live${asked.size ? `?${asked}` : ""}`, true);
  };

  if (problem && !talks) return html`<${Trouble} problem=${problem} retry=${load} />`;
  if (!talks) return html`<${Waiting} />`;
  const talk = talks.find((each) => each.conversation === conversation);
  return html`<div class="live">
    <${Watched} key=${conversation} conversation=${conversation} talk=${talk} onTalk=${heard} onOpen=${load}>
      <${Filter}
        name=${t("live.persona")}
        all=${t("live.everybody")}
        value=${persona}
        options=${unique(talks.map((each) => each.persona))}
        onChoose=${(/** @type {string} */ value) => filter("persona", value)}
      />
      <${Filter}
        name=${t("live.place")}
        all=${t("live.everywhere")}
        value=${place}
        options=${unique(talks.map((each) => placeOf(each.conversation)))}
        onChoose=${(/** @type {string} */ value) => filter("place", value)}
      />
    <//>
    <${Talks} talks=${shown} current=${conversation} query=${query} />
  </div>`;
}

/** @param {string[]} values */
const unique = (values) => [...new Set(values)].filter(Boolean).sort();

/** @param {{name: string, all: string, value: string, options: string[], onChoose: (value: string) => void}} props */
const Filter = ({ name, all, value, options, onChoose }) =>
  options.length < 2 && !value
    ? null
    : html`<label class="small">
        <span class="unseen">${name}</span>
        <select value=${value} onChange=${(/** @type {any} */ event) => onChoose(event.target.value)}>
          <option value="">${all}</option>
          ${options.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
        </select>
      </label>`;

/** One talk, followed from what is kept of it on; it can be paused, and then gone through event by event.
 * @param {object} props
 * @param {string} props.conversation
 * @param {Talk | undefined} props.talk
 * @param {(event: any) => void} props.onTalk
 * @param {() => void} props.onOpen all that happens from now on is heard
 * @param {any} [props.children]
 */
function Watched({ conversation, talk, onTalk, onOpen, children }) {
  const [turns, setTurns] = useState(/** @type {import("../live/story.js").Turn[]} */ ([]));
  const [state, setState] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [paused, setPaused] = useState(false);
  const [waits, setWaits] = useState(0);
  const [missed, setMissed] = useState(false);
  // What came and is not on the screen yet; it is put there once a frame, or step by step.
  const buffer = useRef(/** @type {{event: any, fresh: boolean}[]} */ ([]));
  const stopped = useRef(false);
  const frame = useRef(0);

  /** @param {number} count of events to be put on the screen */
  const show = (count) => {
    const events = buffer.current.splice(0, count);
    if (events.length) {
      setTurns((before) => events.reduce((all, { event, fresh }) => told(all, event, fresh), before));
    }
    setWaits(buffer.current.length);
  };
  const draw = () => {
    frame.current = 0;
    if (!stopped.current) show(buffer.current.length);
    else setWaits(buffer.current.length);
  };

  useEffect(() => {
    const ended = new AbortController();
    let fresh = false; // what comes is news, and not what was kept
    const asked = new URLSearchParams({ kinds: "turn,talk", ...(conversation && { conversation }) });
    follow(
      `/api/studio/events?${asked}`,
      (event) => {
        if (event.kind === "talk") onTalk(event);
        if (event.kind === "now") {
          fresh = true;
          onOpen();
        }
        if (event.kind === "missed") {
          buffer.current = [];
          setTurns([]);
          setMissed(true);
          fresh = false;
        }
        if (event.kind !== "turn") return;
        buffer.current.push({ event, fresh });
        frame.current ||= requestAnimationFrame(draw);
      },
      ended.signal,
      (now, refused) => {
        fresh = false;
        if (now === "open") {
          buffer.current = [];
          setTurns([]); // what is kept comes anew
        }
        setState(now);
        setProblem(refused ?? null);
      },
    );
    return () => {
      ended.abort();
      cancelAnimationFrame(frame.current);
    };
  }, [conversation]);

  const pause = () => {
    stopped.current = !paused;
    setPaused(!paused);
    if (paused) show(buffer.current.length);
  };

  return html`<section class="watched">
    <header class="screen-head">
      <div class="row">
        <h1>${t("live.title")}</h1>
        <${Pulse} state=${paused ? "paused" : state} />
      </div>
      ${children}
      <div class="row controls">
        ${paused && html`<span class="small soft" role="status">${t("live.waits", { count: waits })}</span>`}
        ${paused && html`<button class="quiet" disabled=${waits === 0} onClick=${() => show(1)}>${t("live.step")}</button>`}
        <button class="quiet" aria-pressed=${paused} onClick=${pause}>
          ${t(paused ? "live.resume" : "live.pause")}
        </button>
      </div>
    </header>
    <${Trouble} problem=${problem} />
    ${missed && html`<p class="small soft" role="status">${t("live.missed")}</p>`}
    ${talk?.hidden && html`<p class="private small">${t("live.hidden")}</p>`}
    ${turns.length === 0 && !problem && html`<${Nothing} talk=${talk} />`}
    <div class="live-turns">
      ${[...turns].reverse().map((turn) => html`<${TurnView} key=${turn.turn} turn=${turn} />`)}
    </div>
  </section>`;
}

/** @param {{state: string}} props */
const Pulse = ({ state }) =>
  html`<span class=${`pulse ${state}`} role="status"
    ><span class="unseen">${state && t(`live.state.${state}`)}</span></span
  >`;

/** @param {{talk: Talk | undefined}} props */
const Nothing = ({ talk }) =>
  html`<${Empty} title=${t(talk ? "live.quiet" : "live.nothing")}>
    <p>${t("live.how")}</p>
    <a href="/">${t("nav.talk")}</a>
  <//>`;

/** The talks in which something happened, at the side.
 * @param {{talks: Talk[], current: string, query: URLSearchParams}} props
 */
function Talks({ talks, current, query }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 15_000);
    return () => clearInterval(timer);
  }, []);
  if (!talks.length) return null;
  const asked = query.size ? `?${query}` : "";
  return html`<nav class="live-talks" aria-label=${t("live.talks")}>
    <h2 class="small soft">${t("live.talks")}</h2>
    <ul>
      ${talks.map((talk) => {
        const place = placeOf(talk.conversation);
        return html`<li key=${talk.conversation}>
          <a
            href=${`/studio/live/${encodeURIComponent(talk.conversation)}${asked}`}
            aria-current=${talk.conversation === current ? "true" : null}
          >
            <span class="talk-name"
              ><span class=${talk.active ? "talk-dot on" : "talk-dot"} aria-hidden="true"></span
              ><bdi>${talk.persona || "…"}</bdi></span
            >
            <span class="small soft dotted">
              ${talk.active ? html`<span>${t("live.writes")}</span>` : html`<${Time} at=${talk.last}>${ago(talk.last)}<//>`}
              <span>${t("live.turns", { count: talk.turns })}</span>
            </span>
            <span class="small soft address" dir="ltr">${talk.conversation}</span>
            <span class="unseen">${place}${talk.hidden ? `, ${t("live.private")}` : ""}</span>
          </a>
        </li>`;
      })}
    </ul>
  </nav>`;
}
