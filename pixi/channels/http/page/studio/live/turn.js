// One turn as it is watched: the raw text, what came of each command beside it, and a line between the two.
import { html, useLayoutEffect, useRef, useState } from "../../lib/html.js";
import { Badge, Time } from "../../lib/parts.js";
import { moment, number, t } from "../../lib/words.js";
import { actText, dollars, Figure, milliseconds, Prompt } from "./figures.js";
import { lookOf, stretches, usedBy } from "./story.js";

/** @typedef {import("./story.js").Turn} Turn */
/** @typedef {import("./story.js").Step} Step */

/** @param {{turn: Turn}} props */
export function TurnView({ turn }) {
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const going = !turn.end && !turn.effects.some((each) => each.type === "word" && each.word === "state");
  return html`<article
    class="live-turn"
    aria-label=${t("live.turn", { number: `${turn.turn}` })}
    aria-busy=${going}
  >
    <${Asked} turn=${turn} />
    ${
      turn.hidden
        ? null
        : html`<div class="turn-body" ref=${body}>
            <div class="raw">
              <h2 class="unseen">${t("live.raw")}</h2>
              ${turn.reading && html`<${Reading} of=${turn.reading} />`}
              ${turn.steps.map((step) => html`<${StepView} key=${step.step} step=${step} going=${going && step === turn.steps.at(-1)} />`)}
            </div>
            <ol class="effects" aria-label=${t("live.effects")}>
              ${turn.effects.map((each) => html`<${Effect} key=${each.key} of=${each} />`)}
            </ol>
            <${Threads} turn=${turn} around=${body} />
          </div>`
    }
    <${Sums} turn=${turn} />
  </article>`;
}

/** What is answered, and who answers. @param {{turn: Turn}} props */
const Asked = ({ turn }) =>
  html`<header class="turn-head">
    <div class="asked">
      ${turn.answers.map(
        ({ id, author, text }) =>
          html`<p key=${id}><bdi class="who">${author}</bdi> <span dir="auto">${text}</span></p>`,
      )}
    </div>
    <p class="small soft dotted">
      <bdi>${turn.persona}</bdi>
      ${turn.began > 0 && html`<${Time} at=${turn.began}>${moment(turn.began)}<//>`}
    </p>
  </header>`;

/** A model here reads its prompt. @param {{of: {done: number, total: number}}} props */
const Reading = ({ of }) =>
  html`<p class="small soft">
    ${t("live.reading", { done: of.done, total: of.total })}
    <progress
      aria-label=${t("live.reading", { done: of.done, total: of.total })}
      max=${of.total || 1}
      value=${of.done}
    ></progress>
  </p>`;

/** @param {{step: Step, going: boolean}} props */
function StepView({ step, going }) {
  return html`<section class=${step.thrown ? "step thrown" : "step"}>
    ${step.step > 1 && html`<p class="small soft">${t("live.request", { number: step.step })}</p>`}
    ${
      step.thoughts &&
      html`<details class="thoughts" open=${going}>
        <summary class="small">${t("live.thoughts")}</summary>
        <p dir="auto">${step.thoughts}</p>
      </details>`
    }
    <pre class="stream" dir="auto">
${stretches(step).map(({ text, command }) =>
        command === null
          ? text
          : html`<span
              key=${command.number}
              class=${`command ${lookOf(command.name)}${command.to === null ? " opened" : ""}${command.fresh && command.to !== null ? " lit" : ""}`}
              data-command=${command.number}
              >${text}${command.to !== null && html`<sup aria-hidden="true">${command.number + 1}</sup>`}</span
            >`,
      )}${going && !step.finish && html`<span class="caret" aria-hidden="true"></span>`}</pre>
    ${step.thrown && html`<p class="small soft">${t(`live.thrown.${step.thrown}`)}</p>`}
  </section>`;
}

/** @param {{of: Turn["effects"][number]}} props */
function Effect({ of }) {
  switch (of.type) {
    case "act":
      return html`<li class=${`effect ${lookOf(of.act)} ${of.outcome}`} data-effect=${of.number}>
        <p class="effect-head small">
          ${of.number !== null && html`<span class="pair">${of.number + 1}</span>`}
          <span class="mono">${of.act}</span>
          ${of.outcome !== "done" && html`<${Badge} kind="bad">${t(`live.outcome.${of.outcome}`)}<//>`}
          ${of.ms !== null && html`<span class="ms" title=${t("live.since")}>${milliseconds(of.ms)}</span>`}
        </p>
        <p class="effect-text" dir="auto">${actText(of.act, of.text)}</p>
      </li>`;
    case "tool":
      return html`<li class="effect tool">
        <p class="effect-head small">
          <span class="mono">${of.name}</span>
          ${of.ok === false && html`<${Badge} kind="bad">${t("live.toolFailed")}<//>`}
          ${of.ms !== null && html`<span class="ms">${milliseconds(of.ms)}</span>`}
        </p>
        <pre class="small" dir="auto">${JSON.stringify(of.arguments, null, 1)}</pre>
        ${of.ok === null && html`<p class="small soft" role="status">${of.progress || t("live.running")}</p>`}
        ${
          of.ok !== null &&
          html`<details>
            <summary class="small">${t("live.result")}</summary>
            <pre class="small" dir="auto">
${typeof of.result === "string" ? of.result : JSON.stringify(of.result, null, 1)}</pre>
          </details>`
        }
      </li>`;
    default:
      return html`<li class=${`effect word ${of.word}`}>
        <p class="effect-head small">${t(`live.words.${of.word}`)}</p>
        ${of.word === "state" ? html`<p class="small">${t(`live.states.${of.text}`)}</p>` : html`<p class="small" dir="auto">${of.text}</p>`}
        ${of.pages.map((page) => html`<p class="small" key=${page.url} dir="auto">${page.title} ${page.url}</p>`)}
      </li>`;
  }
}

/** What the turn came to, or has used until now. @param {{turn: Turn}} props */
function Sums({ turn }) {
  const { end } = turn;
  const usage = usedBy(turn);
  return html`<footer class="turn-foot">
    <dl>
      <${Figure} name=${t("live.model")}
        ><span class="mono">${end?.model || turn.steps.at(-1)?.model || turn.model}</span><//
      >
      ${usage.prompt_tokens > 0 && html`<${Prompt} usage=${usage} />`}
      ${usage.completion_tokens > 0 && html`<${Figure} name=${t("live.completion")}>${number(usage.completion_tokens)}<//>`}
      ${end && html`<${Figure} name=${t("live.cost")}>${dollars(end.cost)}<//>`}
      ${end?.first_visible != null && html`<${Figure} name=${t("live.first")}>${milliseconds(end.first_visible * 1000)}<//>`}
      ${end && html`<${Figure} name=${t("live.whole")}>${milliseconds(end.seconds * 1000)}<//>`}
    </dl>
    ${end && end.finish !== "stop" && html`<${Badge} kind="bad">${t(`live.finish.${end.finish}`)}<//>`}
    ${end?.limits?.map((/** @type {string} */ limit) => html`<${Badge} key=${limit}>${t(`live.limits.${limit}`)}<//>`)}
    ${end && html`<a class="why" href=${`/studio/why/${turn.turn}`}>${t("nav.why")}</a>`}
  </footer>`;
}

/** Thin lines from each command to what came of it, where both stand side by side.
 * @param {{turn: Turn, around: {current: HTMLElement | null}}} props
 */
function Threads({ turn, around }) {
  const [paths, setPaths] = useState(/** @type {{key: string, d: string, look: string}[]} */ ([]));
  useLayoutEffect(() => {
    const drawn = around.current ? threadsIn(around.current) : [];
    setPaths((before) => (same(before, drawn) ? before : drawn));
  });
  useLayoutEffect(() => {
    const body = around.current;
    if (!body) return undefined;
    const watcher = new ResizeObserver(() => setPaths(threadsIn(body)));
    watcher.observe(body);
    return () => watcher.disconnect();
  }, [turn.turn]);
  return html`<svg class="threads" aria-hidden="true">
    ${paths.map(({ key, d, look }) => html`<path key=${key} class=${look} d=${d} />`)}
  </svg>`;
}

/** @param {{key: string, d: string}[]} one @param {{key: string, d: string}[]} other */
const same = (one, other) => one.length === other.length && one.every((each, at) => each.d === other[at]?.d);

/** @param {HTMLElement} body @returns {{key: string, d: string, look: string}[]} */
function threadsIn(body) {
  const frame = body.getBoundingClientRect();
  const raw = body.querySelector(".raw")?.getBoundingClientRect();
  const effects = body.querySelector(".effects")?.getBoundingClientRect();
  if (!raw || !effects || effects.top >= raw.bottom) return []; // they stand below each other
  const rightward = effects.left >= raw.left;
  const found = [];
  for (const effect of body.querySelectorAll("[data-effect]")) {
    const command = body.querySelector(`[data-command="${effect.getAttribute("data-effect")}"]`);
    const last = [...(command?.getClientRects() ?? [])].at(-1);
    if (!command || !last) continue;
    const target = effect.getBoundingClientRect();
    const round = (/** @type {number} */ value) => Math.round(value * 2) / 2;
    // Below its line to the edge of the text, so that no word is struck through; then across to the effect.
    const x1 = round((rightward ? last.right : last.left) - frame.left);
    const y1 = round(last.bottom + 2 - frame.top);
    const edge = round((rightward ? raw.right : raw.left) - frame.left);
    const x2 = round((rightward ? target.left : target.right) - frame.left);
    const y2 = round(target.top + 12 - frame.top);
    const middle = (edge + x2) / 2;
    const d = `M${x1} ${y1}H${edge}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
    found.push({ key: effect.getAttribute("data-effect") + d, d, look: lookIn(effect) });
  }
  return found;
}

/** @param {Element} effect */
const lookIn = (effect) =>
  ["send", "react", "note"].find((look) => effect.classList.contains(look)) ?? "other";
