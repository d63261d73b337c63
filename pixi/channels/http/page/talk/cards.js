// Cards: those of the companion as what they are, all others by what every card says of itself.
import { server } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { safeLink } from "../lib/markdown.js";
import { t } from "../lib/words.js";

/** @typedef {import("./conversation.js").Card} CardForm */

const NEVER = new Set(["javascript", "data", "vbscript", "file", "about", "blob", "filesystem"]);

/** Return a link into an app, such as `trickbook://spot/7`; "" for what is none.
 * @param {string} address
 */
function appLink(address) {
  const scheme = /^([a-z][a-z0-9+.-]{0,40}):\/\//.exec(address)?.[1];
  return scheme && !NEVER.has(scheme) ? address : "";
}

/** A link that leads out of the page; its words alone where it may not.
 * @param {{to: string, children: any}} props
 */
export function Outward({ to, children }) {
  const href = safeLink(to) || appLink(to);
  if (!href) return children;
  return html`<a href=${href} target="_blank" rel="noopener noreferrer nofollow ugc">${children}</a>`;
}

/** A picture, from the server of the talk alone; one that cannot be drawn is told of by its words.
 * @param {{words?: string, address: string, pictures: Record<string, string>, kind?: string}} props
 */
export function Image({ words = "", address, pictures, kind = "" }) {
  const [failed, setFailed] = useState(false);
  const ours = Object.hasOwn(pictures, address) ? pictures[address] : "";
  if (ours && !failed) {
    const source = server.origin + ours;
    return html`<img
      class=${kind}
      src=${source}
      alt=${words}
      loading="lazy"
      onError=${() => setFailed(true)}
    />`;
  }
  return words ? html`<p dir="auto"><${Outward} to=${address}>${words}<//></p>` : null;
}

/** @param {{card: CardForm, pictures: Record<string, string>}} props */
export function Card({ card, pictures }) {
  const body = Object.hasOwn(DRAWN, card.type) && isOf(card) ? DRAWN[card.type] : General;
  return html`<section class="card" data-type=${card.type}>
    <${body} card=${card} pictures=${pictures} />
  </section>`;
}

/** Whether the data of a card is what its type says: anybody may name a type.
 * @param {CardForm} card
 */
function isOf({ type, data }) {
  const isNamed = (/** @type {any} */ each) => typeof each === "object" && typeof each?.name === "string";
  return type === "spots_list" ? Array.isArray(data) && data.every(isNamed) : isNamed(data);
}

/** @param {any} text @returns {string} */
const words = (text) => (typeof text === "string" ? text : "");

/** @param {any} spot */
const where = (spot) => [words(spot.city), words(spot.state)].filter(Boolean).join(", ");

/** @param {{of: any}} props */
const Stars = ({ of: rating }) =>
  typeof rating === "number"
    ? html`<span class="stars" aria-label=${t("card.rating", { rating })}>★ ${rating.toFixed(1)}</span>`
    : null;

/** Where to go on: the map, and the app. @param {{map?: string, app: any}} props */
function Ways({ map = "", app }) {
  const deep = appLink(words(app));
  if (!safeLink(map) && !deep) return null;
  return html`<p class="ways">
    ${safeLink(map) && html`<${Outward} to=${map}>${t("card.map")}<//>`}
    ${deep && html`<${Outward} to=${deep}>${t("card.app")}<//>`}
  </p>`;
}

/** @param {{card: CardForm, pictures: Record<string, string>}} props */
function Spot({ card, pictures }) {
  const { data, fallback } = card;
  return html`
    <${Image} kind="wide" address=${words(data.imageUrl)} pictures=${pictures} />
    <div class="card-body">
      <h3 dir="auto">${data.name}</h3>
      <p class="soft" dir="auto">${where(data)} <${Stars} of=${data.rating} /></p>
      ${fallback.text && html`<p dir="auto">${fallback.text}</p>`}
      <${Ways} map=${fallback.link} app=${data.deepLink} />
    </div>
  `;
}

/** @param {{card: CardForm, pictures: Record<string, string>}} props */
function Spots({ card, pictures }) {
  const hasPictures = card.data.some((/** @type {any} */ spot) => pictures[words(spot.imageUrl)]);
  return html`<div class="card-body">
    <h3 dir="auto">${card.fallback.title}</h3>
    <ol class="rows">
      ${card.data.map(
        (/** @type {any} */ spot) =>
          html`<li>
            ${
              Object.hasOwn(pictures, words(spot.imageUrl))
                ? html`<${Image} kind="thumb" address=${spot.imageUrl} pictures=${pictures} />`
                : hasPictures && html`<span class="thumb" aria-hidden="true"></span>`
            }
            <span class="row-words">
              <strong dir="auto"><${Outward} to=${words(spot.deepLink)}>${spot.name}<//></strong>
              <span class="soft small" dir="auto">${where(spot)}</span>
            </span>
            <${Stars} of=${spot.rating} />
          </li>`,
      )}
    </ol>
  </div>`;
}

/** @param {{card: CardForm}} props */
function Tricklist({ card }) {
  const { data, fallback } = card;
  const count = Number(data.trickCount) || 0;
  return html`<div class="card-body">
    <h3 dir="auto">${data.name}</h3>
    <p class="soft small">${t("card.tricks", { count })}</p>
    ${
      fallback.text &&
      html`<ul class="ticks" dir="auto">
        ${fallback.text.split("\n").map((line) => html`<li>${line}</li>`)}
      </ul>`
    }
    <${Ways} app=${data.deepLink} />
  </div>`;
}

/** @param {{card: CardForm}} props */
function Trick({ card }) {
  const { data, fallback } = card;
  return html`<div class="card-body">
    <h3 dir="auto">${data.name}</h3>
    <p class="soft small" dir="auto">
      ${[words(data.category), words(data.difficulty)].filter(Boolean).join(" · ")}
    </p>
    ${fallback.text && html`<p dir="auto">${fallback.text}</p>`}
    ${
      safeLink(fallback.link) &&
      html`<p class="ways"><${Outward} to=${fallback.link}>${t("card.video")}<//></p>`
    }
    <${Ways} app=${data.deepLink} />
  </div>`;
}

/** @param {{card: CardForm}} props */
function Draft({ card }) {
  const { data, fallback } = card;
  /** @type {Record<string, string>} */
  const kinds = { approved: "good", rejected: "bad" };
  const status = ["pending_approval", "approved", "rejected"].includes(data.status) ? data.status : "";
  const reason = fallback.fields.find((field) => field.name === "Reason")?.value;
  return html`<div class="card-body">
    <h3 dir="auto">${data.name}</h3>
    <p class="row">
      ${status && html`<span class=${`badge ${kinds[status] ?? ""}`}>${t(`card.${status}`)}</span>`}
      <span class="soft small" dir="auto">${where(data)}</span>
    </p>
    ${reason && html`<p dir="auto">${reason}</p>`}
    <${Ways} map=${fallback.link} app="" />
  </div>`;
}

/** Any other card. @param {{card: CardForm, pictures: Record<string, string>}} props */
function General({ card, pictures }) {
  const { title, text, fields, picture, link } = card.fallback;
  return html`
    ${picture && html`<${Image} kind="wide" address=${picture} pictures=${pictures} />`}
    <div class="card-body">
      ${title && html`<h3 dir="auto"><${Outward} to=${link}>${title}<//></h3>`}
      ${text && html`<p class="card-text" dir="auto">${text}</p>`}
      ${
        fields.length > 0 &&
        html`<dl>
          ${fields.map(
            (field) =>
              html`<div dir="auto">
                <dt>${field.name}</dt>
                <dd>${field.value}</dd>
              </div>`,
          )}
        </dl>`
      }
    </div>
  `;
}

/** @type {Record<string, any>} */
const DRAWN = {
  spot_card: Spot,
  spots_list: Spots,
  tricklist_card: Tricklist,
  trick_card: Trick,
  spot_draft_confirmation: Draft,
};
