// Why: of a past reply the request as it was sent, what came to mind, and what became of each act.
import { html, useState } from "../../lib/html.js";
import { Badge, Empty, Loaded, Time, useLoaded } from "../../lib/parts.js";
import { moment, number, t } from "../../lib/words.js";
import { actText, dollars, Figure, Prompt } from "../live/figures.js";
import { lookOf } from "../live/story.js";

/**
 * @typedef {{kind: string, text: string}} Part
 * @typedef {{role: string, text: string, tokens: number, parts: Part[], images: number, name: string,
 *   calls: {id: string, name: string, arguments: string}[]}} Line
 * @typedef {{kind: string, about: string, text: string, words: string[], score: number | null, known: boolean}} Reminder
 * @typedef {{command: string, kind: string, text: string, outcome: string, parts: number}} Act
 * @typedef {{turn: number, conversation: string, persona: string, model: string, began: number, finish: string,
 *   steps: number, usage: {prompt_tokens: number, cached_tokens: number, completion_tokens: number},
 *   cost: number | null, hidden: boolean, certain: string, changed: string[], persona_now: string,
 *   model_now: string, prefix: Line[], summary: Line | null, history: {turn: number, lines: Line[]}[],
 *   said: Line | null, reply: Line[], requests: {step: number, lines: number, tokens: number, tools: boolean}[],
 *   tools: {name: string, description: string, parameters: any, tokens: number}[], tools_gone: string[],
 *   commands: {name: string, form: string, description: string, choices: string[]}[], reminders: Reminder[],
 *   acts: Act[], sources: {title: string, url: string}[], limits: string[], tokens: Record<string, number>,
 *   raw: string[]}} Answer
 */

/** @param {{path: string[]}} props */
export default function WhyScreen({ path }) {
  const turn = path[0] ?? "";
  const loaded = useLoaded(turn ? `/api/studio/why/${encodeURIComponent(turn)}` : "");
  if (!turn) {
    return html`<${Empty} title=${t("why.choose")}>
      <p>${t("why.from")}</p>
      <p class="row">
        <a href="/studio/live">${t("nav.live")}</a><a href="/studio/talks">${t("nav.talks")}</a>
      </p>
    <//>`;
  }
  return html`<${Loaded} of=${loaded}
    >${(/** @type {Answer} */ answer) => html`<${Told} of=${answer} />`}<//
  >`;
}

/** @param {{of: Answer}} props */
function Told({ of }) {
  return html`<article class="why-screen">
    <header class="screen-head">
      <h1>${t("why.title")}</h1>
      <p class="small soft dotted">
        <bdi>${of.persona}</bdi>
        <${Time} at=${of.began}>${moment(of.began)}<//>
        <a href=${`/studio/live/${encodeURIComponent(of.conversation)}`}>${t("nav.live")}</a>
        <a href=${`/studio/talks/${encodeURIComponent(of.conversation)}`}>${t("why.talk")}</a>
      </p>
    </header>
    <${Certain} of=${of} />
    <${Figures} of=${of} />
    ${!of.hidden && of.said && html`<${Words} of=${of} said=${of.said} />`}
    ${!of.hidden && html`<${Offered} of=${of} />`}
    ${!of.hidden && of.said && html`<${Request} of=${of} said=${of.said} />`}
  </article>`;
}

/** Whether what is shown is what was sent, in one sentence. @param {{of: Answer}} props */
function Certain({ of }) {
  const kind = of.hidden && of.certain !== "forgotten" ? "hidden" : of.certain;
  return html`<div class=${`certain ${kind}`}>
    <p>${t(`why.certain.${kind}`)}</p>
    ${
      kind === "changed" &&
      html`<ul>
        ${of.changed.map((part) => html`<li key=${part}>${t(`why.changed.${part}`)}</li>`)}
      </ul>`
    }
    ${of.persona_now !== of.persona && html`<p>${t("why.otherPersona", { name: of.persona_now })}</p>`}
    ${of.model_now !== of.model && html`<p>${t("why.otherModel", { name: of.model, now: of.model_now })}</p>`}
    ${of.tools_gone.length > 0 && html`<p>${t("why.gone", { names: of.tools_gone.join(", ") })}</p>`}
  </div>`;
}

/** @param {{of: Answer}} props */
const Figures = ({ of }) =>
  html`<div class="turn-foot">
    <dl>
      <${Figure} name=${t("live.model")}><span class="mono">${of.model}</span><//>
      <${Figure} name=${t("why.requests")}>${number(of.steps)}<//>
      <${Prompt} usage=${of.usage} />
      <${Figure} name=${t("live.completion")}>${number(of.usage.completion_tokens)}<//>
      <${Figure} name=${t("live.cost")}>${dollars(of.cost)}<//>
    </dl>
    ${of.finish !== "stop" && html`<${Badge} kind="bad">${t(`live.finish.${of.finish}`)}<//>`}
    ${of.limits.map((limit) => html`<${Badge} key=${limit}>${t(`live.limits.${limit}`)}<//>`)}
  </div>`;

/** What was asked, what came to mind, and the reply. @param {{of: Answer, said: Line}} props */
const Words = ({ of, said }) =>
  html`<section class="why-part">
      <h2>${t("why.said")}</h2>
      <${UserText} line=${said} />
    </section>
    ${
      of.reminders.length > 0 &&
      html`<section class="why-part">
        <h2>${t("why.mind")}</h2>
        <ul class="minded">
          ${of.reminders.map((each, at) => html`<${Minded} key=${at} of=${each} />`)}
        </ul>
        <p class="small soft">${t("why.scoredNow")}</p>
      </section>`
    }
    <section class="why-part">
      <h2>${t("why.reply")}</h2>
      <ol class="acts">
        ${of.acts.map((act, at) => html`<${ActRow} key=${at} of=${act} />`)}
      </ol>
      ${of.acts.length === 0 && html`<p class="soft">${t("why.silence")}</p>`}
      ${of.reply.flatMap((line) => line.calls).map((call) => html`<${CallRow} key=${call.id} call=${call} of=${of} />`)}
      ${
        of.raw.length > 0 &&
        html`<details>
          <summary>${t("why.raw")}</summary>
          ${of.raw.map((text, at) => html`<pre key=${at} class="stream" dir="auto">${text}</pre>`)}
        </details>`
      }
      ${
        of.sources.length > 0 &&
        html`<h3>${t("why.sources")}</h3>
          <ul class="small">
            ${of.sources.map((page) => html`<li key=${page.url} dir="auto">${page.title} <span class="soft mono">${page.url}</span></li>`)}
          </ul>`
      }
    </section>`;

/** A line of people: Pixi's own stamps told apart from their words. @param {{line: Line}} props */
const UserText = ({ line }) =>
  html`<div class="told-line">
    ${(line.parts.length ? line.parts : [{ kind: "words", text: line.text }]).map(
      (part, at) =>
        html`<p key=${at} class=${`line-part is-${part.kind}`} dir="auto">
          ${part.kind === "words" ? part.text.replace(/^> ?/gm, "") : part.text}
        </p>`,
    )}
    ${line.images > 0 && html`<p class="small soft">${t("why.pictures", { count: line.images })}</p>`}
  </div>`;

/** Something that came to mind, with the words that brought it. @param {{of: Reminder}} props */
const Minded = ({ of }) =>
  html`<li class=${`is-${of.kind}`}>
    <p class="small soft dotted">
      <span>${t(`why.kinds.${of.kind}`)}</span>
      <bdi>${of.about}</bdi>
      ${of.score !== null && html`<span>${t("why.score", { score: number(of.score, { maximumFractionDigits: 2 }) })}</span>`}
      ${!of.known && html`<${Badge}>${t("why.notKnown")}<//>`}
    </p>
    <p dir="auto">${of.text}</p>
    ${of.words.length > 0 && html`<p class="small">${t("why.for")} ${of.words.map((word) => html`<mark key=${word} dir="auto">${word}</mark> `)}</p>`}
  </li>`;

/** @param {{of: Act}} props */
function ActRow({ of }) {
  const name = /^\[\s*([^\s:\]#]+)/.exec(of.command)?.[1]?.toLowerCase() ?? of.kind;
  return html`<li class=${`effect ${lookOf(name)} ${of.outcome}`}>
    <div class="act-head">
      <pre class="stream" dir="auto">${of.command || t("why.noCommand", { kind: of.kind })}</pre>
      <span class="small soft dotted">
        <span>${of.kind ? t(`live.outcome.${of.outcome}`) : t("why.kept")}</span>
        ${of.parts > 1 && html`<span>${t("why.parts", { count: of.parts })}</span>`}
      </span>
    </div>
    ${(!of.command || !["send", "react", ""].includes(of.kind)) && of.text && html`<p class="small" dir="auto">${actText(of.kind, of.text)}</p>`}
  </li>`;
}

/** A call of a tool, and its answer. @param {{call: Line["calls"][number], of: Answer}} props */
function CallRow({ call, of }) {
  const calls = of.reply.flatMap((line) => line.calls);
  const answers = of.reply.filter((line) => line.role === "tool");
  const answer = answers[calls.indexOf(call)];
  return html`<div class="effect tool">
    <p class="effect-head small"><span class="mono">${call.name}</span></p>
    <pre class="small" dir="auto">${call.arguments}</pre>
    ${
      answer &&
      html`<details>
        <summary class="small">${t("live.result")}</summary>
        <pre class="small" dir="auto">${answer.text}</pre>
      </details>`
    }
  </div>`;
}

/** Commands and tools that were offered. @param {{of: Answer}} props */
const Offered = ({ of }) =>
  html`<section class="why-part">
    <h2>${t("why.offered")}</h2>
    <ul class="offered">
      ${of.commands.map(
        (each) =>
          html`<li key=${each.name}>
            <code>${each.form}</code> <span class="small soft" dir="auto">${each.description}</span>
            ${each.choices.length > 0 && html`<p class="small soft" dir="auto">${each.choices.join(" ")}</p>`}
          </li>`,
      )}
      ${of.tools.map(
        (each) =>
          html`<li key=${`tool ${each.name}`}>
            <details>
              <summary>
                <code>${each.name}</code>
                <span class="small soft">${t("why.tool")} · ${t("why.tokens", { count: each.tokens })}</span>
              </summary>
              <p class="small" dir="auto">${each.description}</p>
              <pre class="small">${JSON.stringify(each.parameters, null, 1)}</pre>
            </details>
          </li>`,
      )}
    </ul>
  </section>`;

const PARTS = ["prefix", "tools", "history", "said", "reply"];

/** The request, as it was sent: how its tokens are shared out, then line by line.
 * @param {{of: Answer, said: Line}} props
 */
function Request({ of, said }) {
  const total = PARTS.reduce((sum, part) => sum + (of.tokens[part] ?? 0), 0) || 1;
  const there = PARTS.filter((part) => (of.tokens[part] ?? 0) > 0);
  return html`<section class="why-part">
    <h2>${t("why.request")}</h2>
    <div class="shares" aria-hidden="true">
      ${there.map((part) => html`<span key=${part} class=${`part-${part}`} style=${{ flexGrow: (of.tokens[part] ?? 0) / total }}></span>`)}
    </div>
    <ul class="legend small">
      ${there.map((part) => html`<li key=${part}><span class=${`swatch part-${part}`} aria-hidden="true"></span>${t(`why.shares.${part}`)} <span class="soft">${t("why.tokens", { count: of.tokens[part] ?? 0 })}</span></li>`)}
    </ul>
    <p class="small soft">${t("why.estimated")}</p>
    <${Lines} part="prefix" title=${t("why.shares.prefix")} lines=${of.prefix} />
    ${of.summary && html`<${Lines} part="history" title=${t("why.summary")} lines=${[of.summary]} />`}
    ${of.history.length > 0 && html`<${History} turns=${of.history} />`}
    <${Lines} part="said" title=${t("why.shares.said")} lines=${[said]} />
    ${of.requests.length > 1 && html`<p class="small soft">${t("why.more", { count: of.requests.length - 1 })}</p>`}
    <${Lines} part="reply" title=${t("why.shares.reply")} lines=${of.reply} />
  </section>`;
}

/** @param {{turns: Answer["history"]}} props */
function History({ turns }) {
  const [all, setAll] = useState(false);
  const shown = all ? turns : turns.slice(-20);
  const tokens = turns.flatMap((turn) => turn.lines).reduce((sum, line) => sum + line.tokens, 0);
  return html`<details class="sent-part part-history">
    <summary>
      ${t("why.shares.history")}
      <span class="small soft"
        >${t("why.turns", { count: turns.length })} · ${t("why.tokens", { count: tokens })}</span
      >
    </summary>
    ${!all && turns.length > shown.length && html`<button class="quiet small" onClick=${() => setAll(true)}>${t("why.earlier", { count: turns.length - shown.length })}</button>`}
    ${shown.map(
      (turn) =>
        html`<div key=${turn.turn} class="past">
          <a class="small" href=${`/studio/why/${turn.turn}`}
            >${t("live.turn", { number: `${turn.turn}` })}</a
          >
          ${turn.lines.map((line, at) => html`<${LineView} key=${at} line=${line} />`)}
        </div>`,
    )}
  </details>`;
}

/** @param {{part: string, title: string, lines: Line[]}} props */
const Lines = ({ part, title, lines }) =>
  lines.length === 0
    ? null
    : html`<details class=${`sent-part part-${part}`}>
        <summary>
          ${title}
          <span class="small soft"
            >${t("why.tokens", { count: lines.reduce((sum, line) => sum + line.tokens, 0) })}</span
          >
        </summary>
        ${lines.map((line, at) => html`<${LineView} key=${at} line=${line} />`)}
      </details>`;

/** @param {{line: Line}} props */
const LineView = ({ line }) =>
  html`<div class=${`sent-line ${line.role}`}>
    <p class="small soft">${t(`why.roles.${line.role}`)}${line.name && ` · ${line.name}`}</p>
    ${
      line.role === "user" && line.parts.length
        ? line.parts.map(
            (part, at) =>
              html`<pre key=${at} class=${`line-part is-${part.kind}`} dir="auto">${part.text}</pre>`,
          )
        : html`<pre dir="auto">${line.text}</pre>`
    }
    ${line.calls.map((call) => html`<pre key=${call.id} class="small" dir="auto">${call.name} ${call.arguments}</pre>`)}
  </div>`;
