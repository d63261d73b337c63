// One message, as it stands in a talk, and the face of whoever writes.
import { server } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { markdown } from "../lib/markdown.js";
import { t } from "../lib/words.js";
import { Card, Image } from "./cards.js";

/**
 * @typedef {import("./conversation.js").Message} MessageForm
 * @typedef {{id: string, name: string, about: string, avatar: string, language: string,
 *   direction: "ltr" | "rtl", starters: string[], sees: boolean}} Persona
 */

/** The picture of a persona; where it has none, its first letter.
 * @param {{persona: {name: string, avatar: string}, kind?: string}} props
 */
export function Face({ persona, kind = "" }) {
  const [failed, setFailed] = useState(false);
  if (persona.avatar && !failed) {
    const source = server.origin + persona.avatar;
    return html`<img class=${`face ${kind}`} src=${source} alt="" onError=${() => setFailed(true)} />`;
  }
  const hue = [...persona.name].reduce((sum, sign) => sum + (sign.codePointAt(0) ?? 0), 0) % 6;
  return html`<span class=${`face letter hue-${hue} ${kind}`} aria-hidden="true"
    >${[...persona.name][0] ?? "?"}</span
  >`;
}

/**
 * @param {{message: MessageForm, from?: string, children?: any}} props `from`: who wrote it, for those who hear
 *   the page; `children`: what stands below it
 */
export function Said({ message, from = "", children = null }) {
  const { text, cards, picture, reactions } = message;
  const own = message.role === "user";
  return html`<article
    class=${own ? "said own" : "said"}
    id=${`m-${message.id}`}
    data-fate=${message.fate || null}
    aria-busy=${message.growing ? "true" : null}
  >
    ${from && html`<span class="unseen">${from}:</span>`}
    ${text && html`<div class="words" dir="auto">${own ? text : markdown(text)}</div>`}
    ${
      message.attachments.length > 0 &&
      html`<ul class="carried">
        ${message.attachments.map((each) => html`<li><${Carried} file=${each} /></li>`)}
      </ul>`
    }
    ${cards.map((card) => html`<${Card} card=${card} pictures=${message.pictures} />`)}
    ${
      picture &&
      html`<figure class="shown">
        <${Image} words=${picture.text} address=${picture.link} pictures=${message.pictures} />
        ${picture.service && html`<figcaption class="small soft">Powered by ${picture.service}</figcaption>`}
      </figure>`
    }
    ${
      reactions.length > 0 &&
      html`<p class="reactions" role="group" aria-label=${t("talk.reactions")}>
        ${reactions.map((each) => html`<span key=${each.id}>${each.emoji}</span>`)}
      </p>`
    }
    ${children}
  </article>`;
}

/** @param {{file: import("./conversation.js").Carried}} props */
function Carried({ file }) {
  const [failed, setFailed] = useState(false);
  if (file.picture && file.url && !failed) {
    const source = server.origin + file.url;
    return html`<img src=${source} alt=${file.name} loading="lazy" onError=${() => setFailed(true)} />`;
  }
  return html`<span class="file" dir="auto">${file.name}</span>`;
}
