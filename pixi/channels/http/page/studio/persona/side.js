// Beside the text: what is wrong with it, the prompt that it makes, and how it came to be.
import { html, useState } from "../../lib/html.js";
import { Loaded, Time, useLoaded } from "../../lib/parts.js";
import { ago, number, t } from "../../lib/words.js";

/** @typedef {import("./editor.js").PersonaProblem} PersonaProblem */

/** @param {{problems: PersonaProblem[], onShow: (line: number) => void}} props */
export function Problems({ problems, onShow }) {
  if (!problems.length) return html`<p class="soft">${t("persona.nothing_wrong")}</p>`;
  return html`<ul class="problems">
    ${problems.map(
      (each) =>
        html`<li class=${each.stops ? "stops" : "amiss"}>
          <span class="unseen">${t(each.stops ? "persona.stops" : "persona.amiss")}</span>
          ${
            each.line === null
              ? html`<span dir="auto">${each.text}</span>`
              : html`<button class="bare" onClick=${() => onShow(each.line ?? 1)}>
                  <span class="mono soft">${t("persona.line", { line: String(each.line) })}</span>
                  <span dir="auto">${each.text}</span>
                </button>`
          }
        </li>`,
    )}
  </ul>`;
}

/**
 * @typedef {{
 *   sections: {title: string, text: string, tokens: number}[],
 *   tools: {name: string, tokens: number}[],
 *   tokens: number,
 *   context_tokens: number,
 *   model: string,
 *   small: boolean,
 * }} Prompt
 */

/** @param {{prompt: Prompt | null}} props */
export function PromptView({ prompt }) {
  if (!prompt) return html`<p class="soft">${t("persona.no_prompt")}</p>`;
  const ofTools = prompt.tools.reduce((sum, tool) => sum + tool.tokens, 0);
  const parts = prompt.sections.map((each, place) => ({
    title: each.title || t("persona.own_words"),
    tokens: each.tokens,
    hue: place,
  }));
  if (ofTools) parts.push({ title: t("persona.tools"), tokens: ofTools, hue: parts.length });
  return html`<div class="stack prompt">
    <p>
      ${t("persona.tokens", { count: prompt.tokens, room: prompt.context_tokens, model: prompt.model })}
      ${prompt.small && html` <span class="soft">${t("persona.small")}</span>`}
    </p>
    <div
      class="share"
      role="img"
      aria-label=${parts.map((each) => `${each.title} ${number(each.tokens)}`).join(", ")}
    >
      ${parts.map((each) => html`<span class=${`hue${each.hue % 6}`} style=${{ flexGrow: each.tokens }}></span>`)}
    </div>
    ${prompt.sections.map(
      (each, place) =>
        html`<details key=${place}>
          <summary>
            <span class=${`dot hue${place % 6}`}></span>
            <span class="fill" dir="auto">${each.title || t("persona.own_words")}</span>
            <span class="soft figure">${number(each.tokens)}</span>
          </summary>
          <pre dir="auto">${each.text}</pre>
        </details>`,
    )}
    ${
      prompt.tools.length > 0 &&
      html`<details>
        <summary>
          <span class=${`dot hue${prompt.sections.length % 6}`}></span>
          <span class="fill">${t("persona.tools")}</span>
          <span class="soft figure">${number(ofTools)}</span>
        </summary>
        <ul class="plain">
          ${prompt.tools.map(
            (tool) =>
              html`<li class="row">
                <code class="fill">${tool.name}</code><span class="soft figure">${number(tool.tokens)}</span>
              </li>`,
          )}
        </ul>
      </details>`
    }
  </div>`;
}

/** Lines of a unified diff. @param {{text: string}} props */
export function Diff({ text }) {
  const kinds = { "+": "new", "-": "gone", "@": "head" };
  return html`<pre class="diff" tabindex="0">
${text.split("\n").map((line) => {
      const kind = /^(\+\+\+|---|diff |index )/.test(line)
        ? "head"
        : (kinds[/** @type {"+"} */ (line[0])] ?? "");
      return html`<span class=${kind} dir="auto">${line}${"\n"}</span>`;
    })}</pre>`;
}

/** @param {{name: string, version: string}} props `version`: another one asks anew */
export function HistoryView({ name, version }) {
  const path = `/api/studio/personas/${encodeURIComponent(name)}/history`;
  const loaded = useLoaded(`${path}#${version}`);
  const [open, setOpen] = useState("");
  const diff = useLoaded(open && `${path}/${open}`);
  return html`<${Loaded} of=${loaded}
    >${(/** @type {any} */ data) =>
      data.commits.length === 0
        ? html`<p class="soft">${t("persona.no_history")}</p>`
        : html`<ul class="plain commits">
            ${data.commits.map(
              (/** @type {any} */ each) =>
                html`<li key=${each.id}>
                  <button
                    class="bare"
                    aria-expanded=${open === each.id}
                    onClick=${() => setOpen(open === each.id ? "" : each.id)}
                  >
                    <span dir="auto">${each.subject}</span>
                    <span class="soft small"
                      ><bdi>${each.author}</bdi> · <${Time} at=${each.at}>${ago(each.at)}<//></span
                    >
                  </button>
                  ${
                    open === each.id &&
                    html`<${Loaded} of=${diff}
                      >${(/** @type {any} */ its) => html`<${Diff} text=${its.diff} />`}<//
                    >`
                  }
                </li>`,
            )}
          </ul>`}<//
  >`;
}
