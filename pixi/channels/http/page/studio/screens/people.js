// People: who is known, and of each what is kept, what they used, their export, and forgetting them.
import { html, useState } from "../../lib/html.js";
import { get, post } from "../../lib/api.js";
import { asProblem, Dialog, Empty, Loaded, Time, Trouble, useLoaded, useNotice } from "../../lib/parts.js";
import { ago, number, size, t } from "../../lib/words.js";
import { go } from "../studio.js";
import {
  asking,
  Figure,
  Meter,
  money,
  Pages,
  personPath,
  saveJson,
  Search,
  short,
  TalkLine,
  useFilters,
  usePages,
} from "../listing.js";

const PEOPLE = "/api/studio/people";

/** @param {{path: string[], query: URLSearchParams}} props */
export default function PeopleScreen({ path, query }) {
  return html`<div class="sheet">
    ${path[0] ? html`<${OnePerson} key=${path[0]} id=${path[0]} />` : html`<${Everybody} query=${query} />`}
  </div>`;
}

/** @param {{query: URLSearchParams}} props */
function Everybody({ query }) {
  const [asked, ask] = useFilters(query, ["search"]);
  const pages = usePages(asking(PEOPLE, asked), "people");
  return html`<header class="screen-head">
      <h1>${t("people.title")}</h1>
      <${Search}
        value=${asked["search"] ?? ""}
        label=${t("people.search")}
        onSearch=${(/** @type {string} */ search) => ask({ search })}
      />
    </header>
    <${Pages}
      of=${pages}
      label=${t("people.title")}
      row=${(/** @type {any} */ person) => html`<${PersonLine} key=${person.id} person=${person} />`}
      empty=${html`<${Empty} title=${t("people.none")}>
        <p>${t(asked["search"] ? "people.other" : "people.begin")}</p>
      <//>`}
    />`;
}

/** What is kept of a person, in a few words. @param {{person: any}} props */
const Kept = ({ person }) =>
  html`<span class="soft small facts">
    ${["messages", "memories", "files", "deeds"]
      .filter((part) => person[part])
      .map((part) => html`<span key=${part}>${t(`people.${part}`, { count: person[part] })}</span>`)}
    ${!person.messages && !person.memories && !person.files && html`<span>${t("people.figures")}</span>`}
  </span>`;

/** @param {{person: any}} props */
const PersonLine = ({ person }) =>
  html`<li>
    <a class="line" href=${personPath(person.id)}>
      <span class="line-head">
        <span class="line-name"
          ><bdi>${person.name || person.id}</bdi>
          ${person.name && html`<code class="soft small" dir="ltr">${person.id}</code>`}</span
        >
        ${person.last && html`<span class="soft small"><${Time} at=${person.last}>${ago(person.last)}<//></span>`}
      </span>
      <${Kept} person=${person} />
    </a>
  </li>`;

/** @param {{id: string}} props */
function OnePerson({ id }) {
  const loaded = useLoaded(`${PEOPLE}/${encodeURIComponent(id)}`);
  return html`<p class="back small"><a href="/studio/people">${t("people.title")}</a></p>
    <${Loaded} of=${loaded}>${(/** @type {any} */ shown) => html`<${Person} shown=${shown} />`}<//>`;
}

/** @param {{shown: any}} props */
function Person({ shown }) {
  const { person, talks, today, month, shares } = shown;
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [forgets, setForgets] = useState(false);
  const [notice, say] = useNotice();
  const path = `${PEOPLE}/${encodeURIComponent(person.id)}`;
  const save = () =>
    get(`${path}/export`).then(
      (kept) => {
        saveJson(`pixi-${person.id}`, kept);
        if (kept.withheld.length) say(t("people.withheld", { count: kept.withheld.length }));
      },
      (error) => setProblem(asProblem(error)),
    );
  return html`<header class="screen-head">
      <div class="title">
        <h1><bdi>${person.name || person.id}</bdi></h1>
        ${
          person.names.length > 1 &&
          html`<p class="soft small" dir="auto">
            ${t("people.also", { names: person.names.slice(1).join(", ") })}
          </p>`
        }
        <p class="soft small"><code dir="ltr">${person.id}</code></p>
      </div>
      <div class="row">
        <button class="quiet" onClick=${save}>${t("people.export")}</button>
        <button class="danger" onClick=${() => setForgets(true)}>${t("people.forget")}</button>
      </div>
    </header>
    <${Trouble} problem=${problem} />
    <dl class="figures">
      <${Figure} name=${t("people.kept.messages")} value=${number(person.messages)} />
      <${Figure}
        name=${t("people.kept.memories")}
        value=${number(person.memories)}
        href=${person.memories ? asking("/studio/memory", { person: person.id }) : ""}
      />
      <${Figure}
        name=${t("people.kept.files")}
        value=${number(person.files)}
        note=${person.files ? size(shown.file_bytes) : ""}
      />
      <${Figure} name=${t("people.kept.deeds")} value=${number(person.deeds)} />
      <${Figure} name=${t("people.kept.today")} value=${cost(today)} note=${said(today)} />
      <${Figure} name=${t("people.kept.month")} value=${cost(month)} note=${said(month)} />
    </dl>
    ${
      shares.length > 0 &&
      html`<section class="part">
        <h2>${t("people.left")}</h2>
        <ul class="meters">
          ${shares.map((/** @type {any} */ share) => {
            const told = { used: short(share.used), limit: short(share.limit) };
            const label = t(`usage.kind.${share.kind}`, told);
            return html`<li key=${share.kind}>
              <span>${label}</span>
              <${Meter} used=${share.used} limit=${share.limit} label=${label} />
            </li>`;
          })}
        </ul>
      </section>`
    }
    <section class="part">
      <h2>${t("talks.title")}</h2>
      ${
        talks.length
          ? html`<ul class="lines">
              ${talks.map((/** @type {any} */ talk) => html`<${TalkLine} key=${talk.address} talk=${talk} />`)}
            </ul>`
          : html`<p class="soft">${t("people.no_talks")}</p>`
      }
    </section>
    ${forgets && html`<${Forget} person=${person} path=${path} onClose=${() => setForgets(false)} />`}
    ${notice}`;
}

/** What an account was charged, and for how many messages. @param {any} row */
const cost = (row) => money(row.cost, row.unpriced_tokens > 0);
/** @param {any} row */
const said = (row) => t("people.messages", { count: row.messages });

/** Ask for the name, and forget whose it is. @param {{person: any, path: string, onClose: () => void}} props */
function Forget({ person, path, onClose }) {
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [done, setDone] = useState(/** @type {any} */ (null));
  const name = person.name.trim() || person.id;
  /** @param {Event} event */
  const forget = (event) => {
    event.preventDefault();
    setProblem(null);
    post(`${path}/forget`, { name: typed.trim() }).then(setDone, (error) => setProblem(asProblem(error)));
  };
  const leave = () => (done ? go("/studio/people") : onClose());
  if (done) {
    return html`<${Dialog} title=${t("people.forgotten")} onClose=${leave}>
      <p>${t("people.changed", { count: done.conversations })}</p>
      ${done.left.map((/** @type {string} */ line) => html`<p key=${line} class="bad">${line}</p>`)}
      <button onClick=${leave}>${t("shared.close")}</button>
    <//>`;
  }
  return html`<${Dialog} title=${t("people.forget_title")} onClose=${onClose}>
    <p>${t("people.forget_text")}</p>
    <form class="stack" onSubmit=${forget}>
      <label class="stack small">
        <span
          >${t("people.type_name")} <strong><bdi>${name}</bdi></strong></span
        >
        <input
          dir="auto"
          autocomplete="off"
          value=${typed}
          onInput=${(/** @type {any} */ event) => setTyped(event.target.value)}
        />
      </label>
      <${Trouble} problem=${problem} />
      <div class="row">
        <button class="danger" disabled=${typed.trim() !== name}>${t("people.forget")}</button>
        <button type="button" class="quiet" onClick=${onClose}>${t("shared.cancel")}</button>
      </div>
    </form>
  <//>`;
}
