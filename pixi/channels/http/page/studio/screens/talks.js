// All talks of every channel, and one of them: what was said, who speaks there, and what it cost.
import { html, useRef, useState } from "../../lib/html.js";
import { get, post, put } from "../../lib/api.js";
import { markdown, safeLink } from "../../lib/markdown.js";
import { asProblem, Dialog, Empty, Loaded, Time, Trouble, useLoaded, useNotice } from "../../lib/parts.js";
import { ago, moment, number, t } from "../../lib/words.js";
import {
  asking,
  channels,
  Chip,
  Choose,
  Lock,
  money,
  Pages,
  personPath,
  placeName,
  saveJson,
  Search,
  short,
  TalkLine,
  talkName,
  talkPath,
  useFilters,
  usePages,
} from "../listing.js";

const TALKS = "/api/studio/talks";
const AT_ONCE = 50;

/** @param {{path: string[], query: URLSearchParams}} props */
export default function TalksScreen({ path, query }) {
  return html`<div class="sheet">
    ${path[0] ? html`<${OneTalk} key=${path[0]} address=${path[0]} />` : html`<${AllTalks} query=${query} />`}
  </div>`;
}

/** @param {{query: URLSearchParams}} props */
function AllTalks({ query }) {
  const [asked, ask] = useFilters(query, ["search", "channel", "persona", "place", "person", "day"]);
  const pages = usePages(asking(TALKS, asked), "talks");
  const [channel, place, person] = [asked["channel"] ?? "", asked["place"] ?? "", asked["person"] ?? ""];
  const name = pages.rows.flatMap((talk) => talk.people).find((each) => each.id === person)?.name;
  return html`<header class="screen-head">
      <h1>${t("talks.title")}</h1>
      <${Search}
        value=${asked["search"] ?? ""}
        label=${t("talks.search")}
        onSearch=${(/** @type {string} */ search) => ask({ search })}
      />
    </header>
    <div class="filters" role="group" aria-label=${t("talks.filters")}>
      <${Choose}
        value=${channel}
        label=${t("talks.channel.label")}
        choices=${channels()}
        onChoose=${(/** @type {string} */ value) => ask({ channel: value })}
      />
      <${Choose}
        value=${asked["persona"] ?? ""}
        label=${t("talks.persona")}
        choices=${[["", t("talks.personas")], ...named(pages.answer?.personas ?? [], asked["persona"] ?? "")]}
        onChoose=${(/** @type {string} */ persona) => ask({ persona })}
      />
      <input
        type="date"
        aria-label=${t("talks.day")}
        value=${asked["day"]}
        onChange=${(/** @type {any} */ event) => ask({ day: event.target.value })}
      />
      ${
        place &&
        html`<${Chip}
          name=${placeName(place.split(":")[0] ?? "", place)}
          onDrop=${() => ask({ place: "" })}
        />`
      }
      ${person && html`<${Chip} name=${name || person} onDrop=${() => ask({ person: "" })} />`}
    </div>
    <${Pages}
      of=${pages}
      label=${t("talks.title")}
      row=${(/** @type {import("../listing.js").Talk} */ talk) =>
        html`<${TalkLine} key=${talk.address} talk=${talk} search=${asked["search"] ?? ""} />`}
      empty=${html`<${Empty} title=${t("talks.none")}>
        <p>${t(Object.values(asked).some(Boolean) ? "talks.other" : "talks.begin")}</p>
      <//>`}
    />`;
}

/** Names as choices, the chosen one among them. @param {string[]} names @param {string} chosen */
const named = (names, chosen) =>
  [...new Set([...names, ...(chosen ? [chosen] : [])])].map((each) => [each, each]);

/** @param {{address: string}} props */
function OneTalk({ address }) {
  const path = `${TALKS}/${encodeURIComponent(address)}`;
  const loaded = useLoaded(`${path}?limit=${AT_ONCE}`);
  const [notice, say] = useNotice();
  return html`<p class="back small"><a href="/studio/talks">${t("talks.title")}</a></p>
    <${Loaded} of=${loaded}>
      ${(/** @type {any} */ shown) =>
        html`<${Talk}
          key=${`${shown.talk.last} ${shown.talk.messages}`}
          path=${path}
          shown=${shown}
          say=${say}
          reload=${loaded.reload}
        />`}
    <//>
    ${notice}`;
}

/** @param {{path: string, shown: any, say: (text: string) => void, reload: () => void}} props */
function Talk({ path, shown, say, reload }) {
  const { talk } = shown;
  const [turns, setTurns] = useState(shown.turns);
  const [more, setMore] = useState(shown.more);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [resets, setResets] = useState(false);
  const list = useRef(/** @type {HTMLOListElement | null} */ (null));

  const fail = (/** @type {unknown} */ error) => setProblem(asProblem(error));
  const earlier = () =>
    get(`${path}?limit=${AT_ONCE}&before=${turns[0].id}`).then((answer) => {
      setTurns([...answer.turns, ...turns]);
      setMore(answer.more);
    }, fail);
  const save = () => get(`${path}/export`).then((answer) => saveJson(talk.address, answer), fail);
  const reset = () => {
    setResets(false);
    post(`${path}/reset`).then(() => {
      say(t("talks.was_reset"));
      reload();
    }, fail);
  };
  const toEnd = () => {
    const last = list.current?.lastElementChild;
    if (last instanceof HTMLElement) {
      last.scrollIntoView({ block: "start" });
      last.focus({ preventScroll: true });
    }
  };
  return html`<header class="screen-head">
      <div class="title">
        <h1 dir="auto">${talkName(talk)}</h1>
        <p class="soft small facts">
          ${talk.persona && html`<span dir="auto">${talk.persona}</span>`}
          <a href=${asking("/studio/talks", { place: talk.place })}>${placeName(talk.channel, talk.place)}</a>
          <span>${t("talks.turns", { count: talk.turns })}</span>
          <span>${money(talk.cost, talk.unpriced > 0)}</span>
          <span>${ago(talk.last)}</span>
          ${turns.length > 5 && html`<button class="bare small" onClick=${toEnd}>${t("talks.latest")}</button>`}
        </p>
        <p class="soft small"><code dir="ltr">${talk.address}</code></p>
      </div>
      <div class="row">
        <a class="button quiet" href=${`/studio/live/${encodeURIComponent(talk.address)}`}
          >${t("nav.live")}</a
        >
        <button class="quiet" disabled=${talk.hidden} onClick=${save}>${t("talks.export")}</button>
        <button class="danger" disabled=${isBranch(talk.address)} onClick=${() => setResets(true)}>
          ${t("talks.reset")}
        </button>
      </div>
    </header>
    <${Trouble} problem=${problem} />
    ${talk.hidden && talk.messages > 0 && html`<p class="hint"><${Lock} /> ${t("talks.hidden")}</p>`}
    ${
      shown.place.choose.length > 0 &&
      html`<${Place} path=${`${path}/place`} place=${shown.place} channel=${talk.channel} say=${say} />`
    }
    <div class="talk-read stack">
      ${more && html`<button class="quiet more" onClick=${earlier}>${t("talks.earlier")}</button>`}
      <ol class="turns" ref=${list} aria-label=${t("talks.said")}>
        ${turns.map(
          (/** @type {any} */ turn) => html`<${Turn} key=${turn.id} turn=${turn} hidden=${talk.hidden} />`,
        )}
      </ol>
      ${
        shown.waiting.length > 0 &&
        html`<section class="stack">
          <h3>${t("talks.waiting")}</h3>
          ${shown.waiting.map((/** @type {any} */ said) => html`<${Said} key=${said.id} said=${said} />`)}
        </section>`
      }
    </div>
    ${
      shown.branches.length > 0 &&
      html`<details class="branches">
        <summary>${t("talks.branches", { count: shown.branches.length })}</summary>
        <ul>
          ${shown.branches.map(
            (/** @type {string} */ each) =>
              html`<li key=${each}>
                <a href=${talkPath(each)}><code dir="ltr">${each}</code></a>
              </li>`,
          )}
        </ul>
      </details>`
    }
    ${
      resets &&
      html`<${Dialog} title=${t("talks.reset_title")} onClose=${() => setResets(false)}>
        <p>${t("talks.reset_text")}</p>
        <div class="row">
          <button class="danger" onClick=${reset}>${t("talks.reset")}</button>
          <button class="quiet" onClick=${() => setResets(false)}>${t("shared.cancel")}</button>
        </div>
      <//>`
    }`;
}

/** @param {string} address */
const isBranch = (address) => /~\d+\.\d+$/.test(address);

/** Who speaks there, and on which model.
 * @param {{path: string, place: any, channel: string, say: (text: string) => void}} props
 */
function Place({ path, place, channel, say }) {
  const [now, setNow] = useState(place);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  /** @param {Record<string, unknown>} choice */
  const choose = (choice) => {
    setProblem(null);
    put(path, choice).then(
      (answer) => {
        setNow(answer);
        say(t("talks.chosen"));
      },
      (error) => {
        setProblem(asProblem(error));
        setNow({ ...now });
      },
    );
  };
  const [first = "", ...others] = now.personas;
  const all = now.all_personas.map((/** @type {any} */ each) => [each.id, each.name]);
  return html`<details class="place">
    <summary>${t("talks.who_speaks")}</summary>
    <div class="filters">
      ${
        now.choose.includes("persona") &&
        html`<label>
          <span class="small soft">${t("talks.persona")}</span>
          <${Choose}
            value=${first}
            label=${t("talks.persona")}
            choices=${[["", t("talks.usual")], ...all]}
            onChoose=${(/** @type {string} */ name) =>
              choose({
                personas: name ? [name, ...others.filter((/** @type {string} */ each) => each !== name)] : [],
              })}
          />
        </label>`
      }
      <label>
        <span class="small soft">${t("talks.model")}</span>
        <${Choose}
          value=${now.model || now.all_models[0]}
          label=${t("talks.model")}
          choices=${now.all_models.map((/** @type {string} */ each) => [each, each])}
          onChoose=${(/** @type {string} */ model) => choose({ model })}
        />
      </label>
      ${
        now.choose.includes("persona") &&
        html`<label class="check">
          <input
            type="checkbox"
            checked=${now.home}
            onChange=${(/** @type {any} */ event) => choose({ home: event.target.checked })}
          />
          ${t("talks.home")}
        </label>`
      }
    </div>
    ${others.length > 0 && html`<p class="small soft">${t("talks.live_here", { names: others.join(", ") })}</p>`}
    ${channel === "discord" && html`<p class="small soft">${t("talks.whole_channel")}</p>`}
    <${Trouble} problem=${problem} />
  </details>`;
}

/** What was said in a turn, what the persona did, and what it took.
 * @param {{turn: any, hidden: boolean}} props
 */
function Turn({ turn, hidden }) {
  const empty = !hidden && !turn.said.length && !turn.events.length && !turn.notes.length;
  const read = turn.prompt_tokens;
  return html`<li class="turn" tabindex="-1">
    ${turn.said.map((/** @type {any} */ said) => html`<${Said} key=${said.id} said=${said} turn=${turn} />`)}
    ${
      (turn.events.length > 0 || turn.notes.length > 0) &&
      html`<div class="said hers">
        <p class="said-by"><bdi class="name">${turn.persona}</bdi></p>
        ${turn.notes.map(
          (/** @type {string} */ note, /** @type {number} */ at) =>
            html`<p class="thought" key=${at} dir="auto">
              <span class="unseen">${t("talks.thought")}</span>${note}
            </p>`,
        )}
        ${turn.events.map((/** @type {any} */ event) => html`<${Act} key=${event.id} event=${event} turn=${turn} />`)}
      </div>`
    }
    ${empty && html`<p class="soft small">${t("talks.forgotten")}</p>`}
    <p class="soft small facts turn-facts">
      <${Time} at=${turn.began}>${moment(turn.began)}<//>
      <span class="mono">${turn.model}</span>
      <span>${t("talks.tokens", { count: short(read + turn.completion_tokens) })}</span>
      ${
        read > 0 &&
        html`<span
          >${t("talks.cached", { share: number(turn.cached_tokens / read, { style: "percent" }) })}</span
        >`
      }
      ${turn.cost !== 0 && html`<span>${money(turn.cost)}</span>`}
      ${turn.finish !== "stop" && html`<span class="badge bad">${turn.finish}</span>`}
      <a href=${`/studio/why/${turn.id}`}>${t("nav.why")}</a>
    </p>
  </li>`;
}

/** A message of a person, with the reactions that it got.
 * @param {{said: any, turn?: any}} props
 */
function Said({ said, turn }) {
  const reactions = (turn?.events ?? []).filter(
    (/** @type {any} */ event) => event.event === "react" && event.message === said.id,
  );
  return html`<div class=${said.addressed ? "said" : "said overheard"}>
    <p class="said-by">
      <a href=${personPath(said.author.id)}><bdi class="name">${said.author.name || said.author.id}</bdi></a>
      <span class="soft small"><${Time} at=${said.at}>${moment(said.at)}<//></span>
      ${!said.addressed && html`<span class="soft small">${t("talks.overheard")}</span>`}
    </p>
    <p class="words" dir="auto">${said.text}</p>
    ${
      reactions.length > 0 &&
      html`<p class="reactions">
        ${reactions.map(
          (/** @type {any} */ each) =>
            html`<span key=${each.id} title=${turn.persona}
              ><span class="unseen">${t("talks.reacted")}</span>${each.emoji}</span
            >`,
        )}
      </p>`
    }
  </div>`;
}

/** Something that the persona did in the chat. @param {{event: any, turn: any}} props */
function Act({ event, turn }) {
  switch (event.event) {
    case "send":
      return html`<div class="words" dir="auto">${markdown(event.text)}</div>`;
    case "card":
      return html`<${CardFallback} card=${event.fallback} />`;
    case "picture":
      return html`<p class="words">
        <${Away} address=${event.link} words=${event.text || event.link} />
      </p>`;
    case "react":
      return turn.said.some((/** @type {any} */ said) => said.id === event.message)
        ? null
        : html`<p class="reactions"><span>${event.emoji}</span></p>`;
    default:
      return null;
  }
}

/** A card as everybody can draw it. @param {{card: any}} props */
const CardFallback = ({ card }) =>
  html`<div class="drawn">
    <p class="name" dir="auto"><${Away} address=${card.link} words=${card.title} /></p>
    ${card.text && html`<p dir="auto">${card.text}</p>`}
    ${
      card.fields.length > 0 &&
      html`<dl>
        ${card.fields.map(
          (/** @type {any} */ field, /** @type {number} */ at) =>
            html`<div key=${at}>
              <dt class="soft small" dir="auto">${field.name}</dt>
              <dd dir="auto">${field.value}</dd>
            </div>`,
        )}
      </dl>`
    }
  </div>`;

/** Words that lead elsewhere, where their address is one. @param {{address: string, words: string}} props */
function Away({ address, words }) {
  const href = safeLink(address ?? "");
  return href
    ? html`<a href=${href} target="_blank" rel="noopener noreferrer nofollow ugc" dir="auto">${words}</a>`
    : html`<span dir="auto">${words}</span>`;
}
