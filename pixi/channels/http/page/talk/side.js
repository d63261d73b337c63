// With whom one talks, and the talks there are.
import { html } from "../lib/html.js";
import { moment, t } from "../lib/words.js";
import { Face } from "./message.js";

/** @typedef {import("./message.js").Persona} Persona */

/**
 * @param {object} props
 * @param {Persona[]} props.personas
 * @param {{conversation: string, persona: string, last: number, text: string}[]} props.talks
 * @param {string} props.persona whose talk is open
 * @param {string} props.talk the name of the one that is open
 * @param {(persona: string) => void} props.onMeet
 * @param {(persona: string, talk: string) => void} props.onOpen
 * @param {() => void} props.onNew
 */
export function Side({ personas, talks, persona, talk, onMeet, onOpen, onNew }) {
  const faces = personas.length > 1 ? Object.fromEntries(personas.map((each) => [each.id, each])) : {};
  return html`<div class="side-parts">
    ${
      personas.length > 1 &&
      html`<section aria-labelledby="people">
        <h2 id="people" class="small soft">${t("talk.personas")}</h2>
        <ul class="faces">
          ${personas.map(
            (each) =>
              html`<li key=${each.id}>
                <button
                  class="face-button"
                  aria-current=${each.id === persona ? "true" : null}
                  onClick=${() => onMeet(each.id)}
                >
                  <${Face} persona=${each} />
                  <span class="names">
                    <span dir="auto">${each.name}</span>
                    ${each.about && html`<span class="small soft clip" dir="auto">${each.about}</span>`}
                  </span>
                </button>
              </li>`,
          )}
        </ul>
      </section>`
    }
    <section aria-labelledby="talks">
      <div class="row between">
        <h2 id="talks" class="small soft">${t("talk.talks")}</h2>
        <button class="quiet small" onClick=${onNew}>${t("talk.new")}</button>
      </div>
      <ul class="talks">
        ${talks.map(
          (each) =>
            html`<li key=${each.conversation}>
              <button
                class="talk-button"
                aria-current=${each.conversation === talk && each.persona === persona ? "true" : null}
                onClick=${() => onOpen(each.persona, each.conversation)}
              >
                ${faces[each.persona] && html`<${Face} persona=${faces[each.persona]} kind="small" />`}
                <span class="names">
                  <span class="clip" dir="auto">${each.text || t("talk.untitled")}</span>
                  <span class="small soft" dir="auto">${moment(each.last)}</span>
                </span>
              </button>
            </li>`,
        )}
      </ul>
    </section>
  </div>`;
}
