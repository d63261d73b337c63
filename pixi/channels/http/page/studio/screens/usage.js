// What was used and what it cost: a chart by day, the table of the command line, and how far budgets are used.
import { html } from "../../lib/html.js";
import { Empty, Loaded, useLoaded } from "../../lib/parts.js";
import { number, spoken, t } from "../../lib/words.js";
import { asking, Choose, Figure, Meter, money, personPath, short, talkPath, useFilters } from "../listing.js";

const DAYS = ["7", "30", "90", "365"];
const PARTS = ["day", "persona", "model", "person", "channel", "guild"];
const HEIGHT = 120;
const STEP = 12; // of a bar with the gap behind it, in units of the drawing

/** @param {{query: URLSearchParams}} props */
export default function UsageScreen({ query }) {
  const [asked, ask] = useFilters(query, ["days", "by"]);
  const days = asked["days"] || "30";
  const by = asked["by"] || "day";
  const loaded = useLoaded(asking("/api/studio/usage", { days, by }));
  return html`<div class="sheet">
    <header class="screen-head">
      <h1>${t("usage.title")}</h1>
      <div class="row">
        <${Choose}
          value=${days}
          label=${t("usage.time")}
          choices=${[...new Set([...DAYS, days])].map((each) => [each, t("usage.days", { count: Number(each) })])}
          onChoose=${(/** @type {string} */ value) => ask({ days: value === "30" ? "" : value })}
        />
        <${Choose}
          value=${by}
          label=${t("usage.by")}
          choices=${PARTS.map((each) => [each, t(`usage.part.${each}`)])}
          onChoose=${(/** @type {string} */ value) => ask({ by: value === "day" ? "" : value })}
        />
      </div>
    </header>
    <${Loaded} of=${loaded}>${(/** @type {any} */ shown) => html`<${Usage} shown=${shown} />`}<//>
  </div>`;
}

/** @param {{shown: any}} props */
function Usage({ shown }) {
  const { days, month, shares } = shown;
  const total = summed(days);
  const used = total.messages || total.prompt_tokens || total.cost || total.searches || total.writes;
  return html`<dl class="figures">
      <${Figure} name=${t("usage.cost")} value=${money(total.cost, total.unpriced_tokens > 0)} />
      <${Figure} name=${t("usage.messages")} value=${number(total.messages)} />
      <${Figure} name=${t("usage.read")} value=${short(total.prompt_tokens)} note=${cached(total)} />
      <${Figure} name=${t("usage.written")} value=${short(total.completion_tokens)} />
      ${total.writes > 0 && html`<${Figure} name=${t("usage.writes")} value=${number(total.writes)} />`}
      ${total.searches > 0 && html`<${Figure} name=${t("usage.searches")} value=${number(total.searches)} />`}
    </dl>
    ${
      used
        ? html`<${Chart} days=${days} />`
        : html`<${Empty} title=${t("usage.nothing")}><p>${t("usage.begin")}</p><//>`
    }
    <section class="part">
      <h2>${t("usage.budgets")}</h2>
      <ul class="meters">
        <li>
          <span
            >${
              month.dollars === null
                ? t("usage.month_free", { cost: money(month.used.cost, month.used.unpriced_tokens > 0) })
                : t("usage.month", { cost: money(month.used.cost), limit: money(month.dollars) })
            }</span
          >
          ${
            month.dollars !== null &&
            html`<${Meter} used=${month.used.cost} limit=${month.dollars} label=${t("usage.this_month")} />`
          }
        </li>
        ${shares.map((/** @type {any} */ share) => {
          const told = { used: short(share.used), limit: short(share.limit) };
          return html`<li key=${`${share.scope} ${share.name} ${share.kind}`}>
            <span
              ><${Key} by=${share.scope} of=${share.name} names=${shown.names} />${" "}
              ${t(`usage.kind.${share.kind}`, told)}</span
            >
            <${Meter} used=${share.used} limit=${share.limit} label=${t(`usage.kind.${share.kind}`, told)} />
          </li>`;
        })}
      </ul>
    </section>
    ${shown.rows.length > 0 && html`<${Table} shown=${shown} />`}`;
}

/** @param {any[]} rows */
function summed(rows) {
  /** @type {Record<string, number>} */
  const names = {
    messages: 0,
    writes: 0,
    prompt_tokens: 0,
    cached_tokens: 0,
    completion_tokens: 0,
    searches: 0,
    unpriced_tokens: 0,
    cost: 0,
  };
  for (const row of rows) for (const name of Object.keys(names)) names[name] += row[name];
  return /** @type {any} */ (names);
}

/** How much of what was read came out of a cache. @param {any} row */
const cached = (row) =>
  row.prompt_tokens
    ? t("talks.cached", {
        share: number(Math.min(row.cached_tokens / row.prompt_tokens, 1), { style: "percent" }),
      })
    : "";

/** @param {string} day @param {Intl.DateTimeFormatOptions} [options] */
const shownDay = (day, options = { day: "numeric", month: "short" }) =>
  new Intl.DateTimeFormat(spoken(), { ...options, timeZone: "UTC" }).format(new Date(`${day}T00:00:00Z`));

/** Bars by day: of dollars, or of tokens where all were free. @param {{days: any[]}} props */
function Chart({ days }) {
  const byCost = days.some((day) => day.cost > 0);
  /** @param {any} day */
  const value = (day) => (byCost ? day.cost : day.prompt_tokens + day.completion_tokens);
  /** @param {number} amount */
  const told = (amount) => (byCost ? money(amount) : t("talks.tokens", { count: short(amount) }));
  const most = Math.max(...days.map(value));
  const gap = days.length > 120 ? 1 : 3;
  const wide = days.length * STEP;
  const first = days[0].day;
  const last = days[days.length - 1].day;
  return html`<figure class="chart">
    <figcaption class="soft small">
      <span>${t(byCost ? "usage.chart.cost" : "usage.chart.tokens")}</span>
      <span>${t("usage.chart.most", { most: told(most) })}</span>
    </figcaption>
    <svg
      viewBox=${`0 0 ${wide} ${HEIGHT + 1}`}
      preserveAspectRatio="none"
      role="img"
      aria-label=${t("usage.chart.label", { first: shownDay(first), last: shownDay(last), most: told(most) })}
    >
      <line class="floor" x1="0" x2=${wide} y1=${HEIGHT} y2=${HEIGHT} />
      ${days.map((day, at) => {
        const part = most ? value(day) / most : 0;
        const high = part ? Math.max(part * HEIGHT, 2) : 0;
        return html`<g key=${day.day} class="day">
          <rect class="slot" x=${at * STEP} y="0" width=${STEP} height=${HEIGHT} />
          <rect class="bar" x=${at * STEP + gap / 2} y=${HEIGHT - high} width=${STEP - gap} height=${high} />
          <title>
            ${shownDay(day.day, { dateStyle: "medium" })}: ${told(value(day))},
            ${t("people.messages", { count: day.messages })}
          </title>
        </g>`;
      })}
    </svg>
    <p class="soft small" aria-hidden="true"><span>${shownDay(first)}</span><span>${shownDay(last)}</span></p>
  </figure>`;
}

/** What a row is of, as people call it, with a link to where more is told.
 * @param {{by: string, of: string | null, names: Record<string, string>}} props
 */
function Key({ by, of, names }) {
  if (of === null)
    return html`<span class="soft">${t(by === "person" ? "usage.nobody" : "usage.elsewhere")}</span>`;
  switch (by) {
    case "day":
      return html`<time datetime=${of}
        >${shownDay(of, { weekday: "short", day: "numeric", month: "short" })}</time
      >`;
    case "person":
      return html`<a href=${personPath(of)}><bdi>${names[of] || of}</bdi></a>`;
    case "channel":
      if (of.startsWith("discord:")) return html`<span>Discord <bdi>${of.slice(8)}</bdi></span>`;
      return html`<a href=${talkPath(of)}><bdi class="mono">${of}</bdi></a>`;
    case "guild":
      return html`<span>Discord <bdi>${of.replace(/^discord:/, "")}</bdi></span>`;
    default:
      return html`<bdi>${of}</bdi>`;
  }
}

/** The rows of the command line. @param {{shown: any}} props */
function Table({ shown }) {
  const { by, rows, names } = shown;
  const ofTurns = by === "persona";
  const searched = rows.some((/** @type {any} */ row) => row.searches > 0);
  const sorted = by === "day" ? [...rows].reverse() : [...rows].sort((one, other) => other.cost - one.cost);
  const first = ofTurns ? "turns" : "messages";
  return html`<section class="part">
    <h2>${t(`usage.part.${by}`)}</h2>
    <div class="scroll" tabindex="0" role="region" aria-label=${t(`usage.part.${by}`)}>
      <table>
        <thead>
          <tr>
            <th scope="col">${t(`usage.one.${by}`)}</th>
            <th scope="col" class="figure">${t("usage.cost")}</th>
            <th scope="col" class="figure">${t(`usage.${first}`)}</th>
            ${!ofTurns && html`<th scope="col" class="figure">${t("usage.writes")}</th>`}
            <th scope="col" class="figure">${t("usage.read")}</th>
            <th scope="col" class="figure">${t("usage.cached")}</th>
            <th scope="col" class="figure">${t("usage.written")}</th>
            ${searched && html`<th scope="col" class="figure">${t("usage.searches")}</th>`}
          </tr>
        </thead>
        <tbody>
          ${sorted.map(
            (row) =>
              html`<tr key=${row[by]}>
                <th scope="row"><${Key} by=${by} of=${row[by]} names=${names} /></th>
                <td class="figure">${money(row.cost, (row.unpriced_tokens ?? row.unpriced_turns) > 0)}</td>
                <td class="figure">${number(row[first])}</td>
                ${!ofTurns && html`<td class="figure">${number(row.writes)}</td>`}
                <td class="figure">${short(row.prompt_tokens)}</td>
                <td class="figure">
                  ${
                    row.prompt_tokens
                      ? number(Math.min(row.cached_tokens / row.prompt_tokens, 1), { style: "percent" })
                      : "–"
                  }
                </td>
                <td class="figure">${short(row.completion_tokens)}</td>
                ${searched && html`<td class="figure">${number(row.searches)}</td>`}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${ofTurns && html`<p class="soft small">${t("usage.turns_only")}</p>`}
  </section>`;
}
