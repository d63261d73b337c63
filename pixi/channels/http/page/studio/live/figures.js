// Figures and small parts that Live and Why share.
import { html } from "../../lib/html.js";
import { number, t } from "../../lib/words.js";

/** Milliseconds, as precise as they matter. @param {number} ms */
export const milliseconds = (ms) =>
  ms >= 1000
    ? `${number(ms / 1000, { maximumFractionDigits: 2 })} s`
    : `${number(ms, { maximumFractionDigits: ms < 10 ? 1 : 0 })} ms`;

/** Dollars; small sums with as many digits as say something. @param {number | null} cost */
export const dollars = (cost) =>
  cost === null
    ? t("live.unpriced")
    : number(cost, {
        style: "currency",
        currency: "USD",
        maximumFractionDigits: cost && cost < 0.01 ? 6 : 2,
        ...(cost && cost < 0.01 ? { maximumSignificantDigits: 2 } : {}),
      });

/** The kind of place that an address leads to: what stands before its first colon. @param {string} address */
export const placeOf = (address) => address.split(":")[0] ?? "";

/** One figure below its name. @param {{name: string, children: any, title?: string}} props */
export const Figure = ({ name, children, title }) =>
  html`<div class="figure-of" title=${title}>
    <dt>${name}</dt>
    <dd>${children}</dd>
  </div>`;

/** Tokens of a prompt, and which share of them the server had in its cache.
 * @param {{usage: {prompt_tokens: number, cached_tokens: number}}} props
 */
export function Prompt({ usage }) {
  const { prompt_tokens: all, cached_tokens: cached } = usage;
  const share = all ? Math.min(cached / all, 1) : 0;
  return html`<${Figure} name=${t("live.prompt")}>
    <span>${number(all)}</span>
    <span class="soft"> · ${t("live.cached", { share: number(share, { style: "percent" }) })}</span>
    <span class="cache-share" aria-hidden="true"
      ><span style=${{ inlineSize: `${share * 100}%` }}></span
    ></span>
  <//>`;
}

/** The text of an act, as it reads: cards are kept as data, pictures by their links. @param {string} act @param {string} text */
export function actText(act, text) {
  if (act === "picture") return text.split("\n").slice(1).join("\n") || text;
  if (act === "card") return text.split("\n")[0] ?? text;
  return text;
}
