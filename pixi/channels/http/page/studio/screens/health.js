// Health: how the process does, what doctor says, MCP servers, and the end of the log.
import { get, post, Problem } from "../../lib/api.js";
import { html, useEffect, useMemo, useState } from "../../lib/html.js";
import { asProblem, Badge, Loaded, Time, Trouble, useLoaded, useNotice, Waiting } from "../../lib/parts.js";
import { ago, number, t } from "../../lib/words.js";
import { Diff } from "../persona/side.js";
import { follow } from "../follow.js";

const LOOK_PAUSE = 4_000;
const MOST_LINES = 1_000;
const SILENT = 15; // seconds after which a process that asked the database nothing stands out
const LEVELS = ["debug", "info", "warning", "error", "critical"];

export default function HealthScreen() {
  const [health, setHealth] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [lines, setLines] = useState(/** @type {any[]} */ ([]));

  const look = () =>
    get("/api/studio/health").then(
      (told) => {
        setHealth(told);
        setProblem(null);
        return told;
      },
      (error) => setProblem(asProblem(error)),
    );
  const examine = () =>
    post("/api/studio/health/doctor").then(
      (doctor) => setHealth((/** @type {any} */ before) => before && { ...before, doctor }),
      (error) => setProblem(asProblem(error)),
    );
  useEffect(() => {
    void look().then((told) => told && told.doctor.ended === null && !told.doctor.running && examine());
    const timer = setInterval(() => !document.hidden && look(), LOOK_PAUSE);
    const stop = new AbortController();
    const refill = () =>
      get(`/api/studio/log?level=debug&limit=${MOST_LINES}`).then(
        (told) => setLines(told.lines),
        () => {},
      );
    void follow(
      "/api/studio/events?kinds=log,health",
      ({ kind, ...event }) => {
        if (kind === "log") setLines((before) => [...before, event].slice(-MOST_LINES));
        else if (kind === "health")
          setHealth((/** @type {any} */ before) => before && { ...before, doctor: event });
        else if (kind === "missed") void refill();
      },
      stop.signal,
      (state) => state === "open" && refill(),
    );
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, []);

  return html`<header class="screen-head"><h1>${t("health.title")}</h1></header>
    <${Trouble} problem=${problem} />
    ${
      health
        ? html`<div class="health">
            <${Vitals} of=${health.vitals} />
            ${health.cluster && html`<${Cluster} of=${health.cluster} />`}
            <${Doctor} of=${health.doctor} onExamine=${examine} />
            ${health.mcp.length > 0 && html`<${McpServers} of=${health.mcp} onChange=${look} />`}
            <${Log} lines=${lines} />
          </div>`
        : !problem && html`<${Waiting} />`
    }`;
}

/** @param {number} seconds */
function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
  const clock = `${hours}:${String(minutes % 60).padStart(2, "0")}`;
  return days ? `${t("health.days", { count: days })} ${clock}` : clock;
}

/** @param {{of: any}} props */
function Vitals({ of: its }) {
  const megabytes = (/** @type {number} */ value) => number(value, { style: "unit", unit: "megabyte" });
  const milliseconds = (/** @type {number} */ value) =>
    number(value, { style: "unit", unit: "millisecond", maximumFractionDigits: value < 10 ? 1 : 0 });
  /** @type {[string, string, string][]} */
  const figures = [
    ["talking", number(its.talking), ""],
    ["up", duration(its.up_seconds), ""],
    ["lag", milliseconds(its.lag_ms), t("health.longest", { lag: milliseconds(its.longest_lag_ms) })],
    ["memory", its.megabytes === null ? "–" : megabytes(its.megabytes), ""],
    ["version", its.version, ""],
  ];
  const more = [
    t("health.conversations", { count: its.conversations }),
    t("health.tasks", { count: its.tasks }),
    t("health.threads", { count: its.threads }),
    its.files === null ? "" : t("health.files", { count: its.files }),
  ];
  return html`<section aria-label=${t("health.vitals")}>
    <dl class="vitals">
      ${figures.map(
        ([name, value, beside]) =>
          html`<div key=${name}>
            <dt class="soft small">${t(`health.${name}`)}</dt>
            <dd>${value} ${beside && html`<span class="soft small">${beside}</span>`}</dd>
          </div>`,
      )}
    </dl>
    <p class="soft small">${more.filter(Boolean).join(" · ")}</p>
  </section>`;
}

/** All processes on the same PostgreSQL server. @param {{of: any}} props */
function Cluster({ of: its }) {
  const seconds = (/** @type {number} */ value) =>
    number(value, { style: "unit", unit: "second", maximumFractionDigits: 0 });
  return html`<section class="part">
    <h2>${t("health.cluster")}</h2>
    ${its.why && html`<p dir="auto">${its.why}</p>`}
    ${
      its.queue &&
      html`<p class="soft small">
        ${
          its.queue.waiting
            ? t("health.queue", { count: its.queue.waiting, time: seconds(its.queue.oldest_seconds) })
            : t("health.queue_empty")
        }
        ${its.queue.stalled > 0 && html` ${t("health.stalled", { count: its.queue.stalled })}`}
      </p>`
    }
    ${
      its.processes.length > 0 &&
      html`<div class="scroll" tabindex="0" role="region" aria-label=${t("health.cluster")}>
        <table>
          <thead>
            <tr>
              <th scope="col">${t("health.process")}</th>
              <th scope="col">${t("health.version")}</th>
              <th scope="col">${t("health.since")}</th>
              <th scope="col">${t("health.seen")}</th>
              <th scope="col" class="figure">${t("health.leases")}</th>
            </tr>
          </thead>
          <tbody>
            ${its.processes.map(
              (/** @type {any} */ each, /** @type {number} */ place) =>
                html`<tr key=${place}>
                  <th scope="row">
                    <span class="mono">${each.part}</span> <span class="soft">${each.shards}</span>
                  </th>
                  <td>${each.version}</td>
                  <td><${Time} at=${each.since}>${ago(each.since)}<//></td>
                  <td class=${each.seen_seconds < SILENT ? "" : "late"}>
                    ${ago(Date.now() / 1000 - each.seen_seconds)}
                  </td>
                  <td class="figure">${number(each.leases)}</td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>`
    }
  </section>`;
}

/** @param {{of: any, onExamine: () => void}} props */
function Doctor({ of: its, onExamine }) {
  const bad = its.findings.filter((/** @type {any} */ each) => !each.ok).length;
  return html`<section class="stack">
    <header class="row">
      <h2>${t("health.checks")}</h2>
      ${its.ended !== null && !its.running && html`<span class="soft small"><${Time} at=${its.ended}>${ago(its.ended)}<//></span>`}
      <span class="fill"></span>
      ${!its.running && its.ended !== null && html`<${Badge} kind=${bad ? "bad" : "good"}>${bad ? t("health.bad", { count: bad }) : t("health.fine")}<//>`}
      <button class="quiet" disabled=${its.running} onClick=${onExamine}>${t("health.again")}</button>
    </header>
    ${its.running && html`<progress max=${its.total} value=${its.done} aria-label=${t("health.checking")}></progress>`}
    <ul class="findings" aria-live="polite">
      ${its.findings.map(
        (/** @type {any} */ each, /** @type {number} */ place) =>
          html`<li key=${place} class=${each.ok ? "ok" : "bad"}>
            <span class="mark" aria-hidden="true">${each.ok ? "✓" : "✗"}</span>
            <span class="unseen">${t(each.ok ? "health.is_fine" : "health.to_mend")}</span>
            <span class="subject mono">${each.subject}</span>
            <span><bdi dir="ltr">${each.text}</bdi></span>
          </li>`,
      )}
    </ul>
  </section>`;
}

/** @param {{of: any[], onChange: () => void}} props */
function McpServers({ of: servers, onChange }) {
  const kinds = { ready: "good", waiting: "bad", broken: "bad" };
  return html`<section class="stack">
    <h2>${t("health.mcp")}</h2>
    <ul class="plain rows">
      ${servers.map(
        (each) =>
          html`<li key=${each.name} class="stack">
            <div class="row">
              <strong class="mono">${each.name}</strong>
              <${Badge} kind=${kinds[/** @type {"ready"} */ (each.state)] ?? "calm"}
                >${t(`health.${each.state}`)}<//
              >
              <span class="soft small">${t("health.mcp_tools", { count: each.tools.length })}</span>
            </div>
            <p class="soft small mono" dir="ltr">${each.shown}</p>
            ${each.why && html`<p dir="auto">${each.why}</p>`}
            ${(each.state === "waiting" || each.changed.length > 0) && html`<${Consent} name=${each.name} onChange=${onChange} />`}
          </li>`,
      )}
    </ul>
  </section>`;
}

/** What changed of a server since it was approved, and the button that approves just that.
 * @param {{name: string, onChange: () => void}} props
 */
function Consent({ name, onChange }) {
  const path = `/api/studio/mcp/${encodeURIComponent(name)}`;
  const [open, setOpen] = useState(false);
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [notice, say] = useNotice();
  const waiting = useLoaded(open ? path : "");
  const approve = () => {
    const { mark, tools } = waiting.data;
    const seen = Object.fromEntries(tools.map((/** @type {any} */ tool) => [tool.name, tool.mark]));
    post(`${path}/approve`, { mark, tools: seen }).then(
      () => {
        say(t("health.approved"));
        setOpen(false);
        onChange();
      },
      (error) => {
        setProblem(asProblem(error));
        waiting.reload();
      },
    );
  };
  if (!open)
    return html`<div>
      <button class="quiet" onClick=${() => setOpen(true)}>${t("health.what_changed")}</button>${notice}
    </div>`;
  return html`<div class="stack consent">
    <${Loaded} of=${waiting}
      >${(/** @type {any} */ its) => html`
        ${
          its.approved &&
          html`<p>${t("health.other_command")}</p>
            <${Diff} text=${`-${its.approved}\n+${its.now}`} />`
        }
        ${its.tools.map(
          (/** @type {any} */ tool) =>
            html`<p><code>${tool.name}</code> ${t("health.other_words")}</p>
              <${Diff}
                text=${tool.lines.map((/** @type {string} */ line) => line.replace(/^ {2}/, "")).join("\n")}
              />`,
        )}
        ${its.waits ? html`<div class="row"><button onClick=${approve}>${t("health.approve")}</button></div>` : html`<p>${t("health.nothing_waits")}</p>`}
      `}<//
    >
    <${Trouble} problem=${problem} />
  </div>`;
}

/** @param {{lines: any[]}} props */
function Log({ lines }) {
  const [level, setLevel] = useState("info");
  const [name, setName] = useState("");
  const [words, setWords] = useState("");
  const names = useMemo(() => [...new Set(lines.map((line) => line.logger))].sort(), [lines]);
  const wanted = words.toLowerCase();
  const found = lines.filter(
    (line) =>
      LEVELS.indexOf(line.level) >= LEVELS.indexOf(level) &&
      (!name || line.logger === name) &&
      (!wanted || `${line.message}\n${line.traceback}`.toLowerCase().includes(wanted)),
  );
  return html`<section class="stack">
    <header class="row">
      <h2 class="fill">${t("health.log")}</h2>
      <select
        aria-label=${t("health.level")}
        value=${level}
        onChange=${(/** @type {any} */ event) => setLevel(event.target.value)}
      >
        ${LEVELS.map((each) => html`<option value=${each}>${each}</option>`)}
      </select>
      <select
        aria-label=${t("health.logger")}
        value=${name}
        onChange=${(/** @type {any} */ event) => setName(event.target.value)}
      >
        <option value="">${t("health.all")}</option>
        ${names.map((each) => html`<option value=${each}>${each}</option>`)}
      </select>
      <input
        type="search"
        dir="auto"
        aria-label=${t("health.words")}
        placeholder=${t("health.words")}
        value=${words}
        onInput=${(/** @type {any} */ event) => setWords(event.target.value)}
      />
    </header>
    ${
      found.length
        ? html`<ol class="log" reversed>
            ${found
              .slice(-200)
              .reverse()
              .map(
                (line) =>
                  html`<li key=${line.number} class=${line.level}>
                    <time class="soft" datetime=${line.time}
                      >${new Date(line.time).toLocaleTimeString()}</time
                    >
                    <span class="level">${line.level}</span>
                    <span class="soft logger">${line.logger}</span>
                    <span class="message" dir="auto">${line.message}</span>
                    ${
                      line.traceback &&
                      html`<details>
                        <summary class="small">${t("health.traceback")}</summary>
                        <pre class="small" dir="ltr">${line.traceback}</pre>
                      </details>`
                    }
                  </li>`,
              )}
          </ol>`
        : html`<p class="soft">${t("health.no_lines")}</p>`
    }
  </section>`;
}
