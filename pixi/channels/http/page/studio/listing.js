// What the screens of talks, people, memories and usage share: rows, filters that stand in the address, figures.
import { html, useEffect, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { asProblem, Time, Trouble, Waiting } from "../lib/parts.js";
import { ago, number, t } from "../lib/words.js";
import { go } from "./studio.js";

/** @typedef {{address: string, channel: string, place: string, name: string, persona: string, model: string,
 *   people: {id: string, name: string}[], said: string, first: number, last: number, messages: number, turns: number,
 *   prompt_tokens: number, cached_tokens: number, completion_tokens: number, cost: number, unpriced: number,
 *   private: boolean, hidden: boolean, found: {turn: number, by: string | null, text: string} | null}} Talk */

/** The address of a talk's screen. @param {string} address */
export const talkPath = (address) => `/studio/talks/${encodeURIComponent(address)}`;
/** The address of a person's screen. @param {string} person their id */
export const personPath = (person) => `/studio/people/${encodeURIComponent(person)}`;

/**
 * What an address asks for below `names`, and a way to ask for something else: so that a link leads to the
 * same list, and Back to the one before.
 * @param {URLSearchParams} query
 * @param {readonly string[]} names
 * @returns {[Record<string, string>, (changed: Record<string, string>) => void]}
 */
export function useFilters(query, names) {
  const asked = Object.fromEntries(names.map((name) => [name, query.get(name) ?? ""]));
  return [
    asked,
    (changed) => {
      const next = new URLSearchParams();
      for (const [name, value] of Object.entries({ ...asked, ...changed })) if (value) next.set(name, value);
      go(`${location.pathname}${next.size ? `?${next}` : ""}`, true);
    },
  ];
}

/** A path with what is asked for. @param {string} path @param {Record<string, string>} asked */
export const asking = (path, asked) => {
  const given = Object.entries(asked).filter(([, value]) => value);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
};

/**
 * Load a list by pages, and anew when `path` changes.
 * @param {string} path of a GET route that takes `after`
 * @param {string} part of the answer that holds the rows; `next` tells where the following page begins
 */
export function usePages(path, part) {
  const none = { path: "", rows: /** @type {any[]} */ ([]), next: /** @type {any} */ ("") };
  const [shown, setShown] = useState({ ...none, answer: /** @type {any} */ (null) });
  const [problem, setProblem] = useState(/** @type {import("../lib/api.js").Problem | null} */ (null));
  const [step, setStep] = useState({ path, after: /** @type {any} */ (""), times: 0 });
  const { after, times } = step.path === path ? step : { after: "", times: 0 };
  useEffect(() => {
    let current = true;
    setProblem(null);
    get(after ? `${path}${path.includes("?") ? "&" : "?"}after=${encodeURIComponent(after)}` : path).then(
      (answer) => {
        if (!current) return;
        const before = after ? shown.rows : [];
        setShown({ path, rows: [...before, ...answer[part]], next: answer.next ?? "", answer });
      },
      (error) => current && setProblem(asProblem(error)),
    );
    return () => {
      current = false;
    };
  }, [path, after, times]);
  const fresh = shown.path === path;
  return {
    rows: fresh ? shown.rows : [],
    answer: shown.answer,
    next: fresh ? shown.next : "",
    loading: !problem && !fresh,
    problem,
    more: () => setStep({ path, after: shown.next, times: times + 1 }),
    reload: () => setStep({ path, after: "", times: times + 1 }),
    /** @param {(row: any) => boolean} keeps */
    drop: (keeps) => setShown({ ...shown, rows: shown.rows.filter(keeps) }),
  };
}

/** A list that is loaded by pages. `empty` stands where there is nothing.
 * @param {{of: ReturnType<typeof usePages>, row: (row: any) => any, empty: any, label: string}} props
 */
export function Pages({ of, row, empty, label }) {
  const searches = !of.rows.length && Boolean(of.next) && !of.problem; // nothing yet, and not all was looked at
  useEffect(() => {
    if (searches) of.more();
  }, [searches, of.next]);
  if (of.loading || searches) return html`<${Waiting} />`;
  return html`<div class="stack">
    ${
      of.rows.length > 0 &&
      html`<ul class="lines" aria-label=${label}>
        ${of.rows.map(row)}
      </ul>`
    }
    ${!of.rows.length && !of.next && !of.problem && empty}
    <${Trouble} problem=${of.problem} retry=${of.reload} />
    ${of.next && html`<button class="quiet more" onClick=${of.more}>${t("shared.more")}</button>`}
  </div>`;
}

/** A field for words that are looked for, a little after they were typed.
 * @param {{value: string, label: string, onSearch: (words: string) => void}} props
 */
export function Search({ value, label, onSearch }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return undefined;
    const timer = setTimeout(() => onSearch(typed), 300);
    return () => clearTimeout(timer);
  }, [typed]);
  return html`<input
    type="search"
    class="search"
    dir="auto"
    aria-label=${label}
    placeholder=${label}
    value=${typed}
    maxlength="200"
    onInput=${(/** @type {any} */ event) => setTyped(event.target.value)}
  />`;
}

/** One of several, chosen from a list. `choices`: pairs of a value and its name.
 * @param {{value: string, label: string, choices: [string, string][], onChoose: (value: string) => void}} props
 */
export const Choose = ({ value, label, choices, onChoose }) =>
  html`<select
    aria-label=${label}
    value=${value}
    onChange=${(/** @type {any} */ event) => onChoose(event.target.value)}
  >
    ${choices.map(([each, name]) => html`<option key=${each} value=${each}>${name}</option>`)}
  </select>`;

/** A filter that came along with a link, and goes at a click.
 * @param {{name: string, onDrop: () => void}} props
 */
export const Chip = ({ name, onDrop }) =>
  html`<button class="chip" onClick=${onDrop} aria-label=${t("talks.drop", { name })}>
    <bdi>${name}</bdi><span aria-hidden="true">×</span>
  </button>`;

const CHANNELS = ["discord", "http", "terminal", "mcp"];
/** @returns {[string, string][]} of all channels and each of them, for `Choose` */
export const channels = () => [
  ["", t("talks.channel.all")],
  ...CHANNELS.map((each) => /** @type {[string, string]} */ ([each, t(`talks.channel.${each}`)])),
];

/** Where a talk is, in words. @param {string} channel @param {string} place */
export function placeName(channel, place) {
  const parts = place.split(":");
  if (channel === "discord") return `Discord ${parts[2] ?? ""}`;
  if (place === "web:local" || channel === "terminal") return t(`talks.place.${channel}`);
  if (place.startsWith("web:visitor:")) return t("talks.place.visitors", { name: parts[2] ?? "" });
  if (place.startsWith("web:")) return t("talks.place.web", { name: parts[1] ?? "" });
  return CHANNELS.includes(channel) ? t(`talks.channel.${channel}`) : channel;
}

/** Money; small sums to the first two digits that count. @param {number | null} cost @param {boolean} [open] */
export function money(cost, open = false) {
  if (cost === null) return "?";
  const digits = cost > 0 && cost < 0.095 ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 2 };
  const told = number(cost, {
    style: "currency",
    currency: "USD",
    currencyDisplay: "narrowSymbol",
    ...digits,
  });
  return open ? `${told} + ?` : told;
}

/** A number as one reads it at a glance. @param {number} count */
export const short = (count) =>
  number(count, { notation: "compact", maximumFractionDigits: count < 1e4 ? 0 : 1 });

/** What was used of what may be, as a bar.
 * @param {{used: number, limit: number, label: string}} props
 */
export function Meter({ used, limit, label }) {
  const part = limit > 0 ? Math.min(used / limit, 1) : 1;
  return html`<span
    class=${`meter ${part >= 1 ? "full" : part >= 0.8 ? "near" : ""}`}
    role="meter"
    aria-label=${label}
    aria-valuemin="0"
    aria-valuemax=${limit}
    aria-valuenow=${Math.min(used, limit)}
    ><span style=${{ inlineSize: `${part * 100}%` }}></span
  ></span>`;
}

/** A figure with its name, and what belongs to it. @param {{name: string, value: string, note?: string, href?: string}} props */
export const Figure = ({ name, value, note = "", href = "" }) =>
  html`<div>
    <dt class="soft small">${name}</dt>
    <dd>
      ${href ? html`<a href=${href}>${value}</a>` : value}
      ${note && html`<span class="soft small">${note}</span>`}
    </dd>
  </div>`;

/** A closed lock: what stands beside it is nobody's to read. */
export const Lock = () =>
  html`<svg class="icon" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
    <path d="M5 7V5a3 3 0 0 1 6 0v2" fill="none" stroke="currentColor" stroke-width="1.5" />
    <rect x="3" y="7" width="10" height="7" rx="1.5" fill="currentColor" />
  </svg>`;

/** A text with the words marked that were looked for. @param {{text: string, words: string}} props */
function Marked({ text, words }) {
  const wanted = words.split(/\s+/).filter(Boolean);
  if (!wanted.length) return text;
  const pattern = wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  return text
    .split(new RegExp(`(${pattern})`, "giu"))
    .map((part, at) => (at % 2 ? html`<mark key=${at}>${part}</mark>` : part));
}

/** What a talk is called: by who takes part, where one may know. @param {Talk} talk */
export function talkName(talk) {
  if (talk.hidden) return t(talk.messages ? "talks.private" : "talks.emptied");
  return talk.people.map((each) => each.name || each.id).join(", ") || talk.name || talk.address;
}

/** A talk in a list, as one link. @param {{talk: Talk, search?: string}} props */
export function TalkLine({ talk, search = "" }) {
  const told = talk.found;
  return html`<li>
    <a class="line" href=${talkPath(talk.address)}>
      <span class="line-head">
        <span class=${talk.hidden ? "line-name soft" : "line-name"} dir="auto"
          >${talk.private && talk.messages > 0 && html`<${Lock} />`} ${talkName(talk)}</span
        >
        <span class="soft small"><${Time} at=${talk.last}>${ago(talk.last)}<//></span>
      </span>
      ${
        told?.text
          ? html`<span class="line-found" dir="auto"
              ><span class="soft">${told.by ?? talk.persona}:</span>${" "}
              <${Marked} text=${told.text} words=${search}
            /></span>`
          : talk.said && html`<span class="line-said soft" dir="auto">${talk.said}</span>`
      }
      <span class="soft small facts">
        ${talk.persona && html`<span dir="auto">${talk.persona}</span>`}
        <span>${placeName(talk.channel, talk.place)}</span>
        <span>${t("talks.turns", { count: talk.turns })}</span>
        ${(talk.cost > 0 || talk.unpriced > 0) && html`<span>${money(talk.cost, talk.unpriced > 0)}</span>`}
      </span>
    </a>
  </li>`;
}

/** Save data as a file of JSON. @param {string} name @param {unknown} data */
export function saveJson(name, data) {
  const address = URL.createObjectURL(
    new Blob([JSON.stringify(data, null, 2)], { type: "application/json" }),
  );
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name.replace(/[^\w.-]+/g, "-")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
