// Databases: the folders, what was set aside in them, and what a model finds there.
import { eventsIn, post, Problem, request } from "../../lib/api.js";
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { asProblem, Badge, Empty, Loaded, Trouble, useLoaded, Waiting } from "../../lib/parts.js";
import { number, size, t } from "../../lib/words.js";

const LIST = "/api/studio/databases";
const LOOK_PAUSE = 2_000; // while something is being read

/** @param {{path: string[], query: URLSearchParams}} props */
export default function DatabasesScreen({ path }) {
  const loaded = useLoaded(LIST);
  const [kept, setKept] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (!loaded.data) return undefined;
    setKept(loaded.data);
    if (loaded.data.databases.every((/** @type {any} */ each) => each.finished || each.trouble))
      return undefined;
    const timer = setTimeout(loaded.reload, LOOK_PAUSE);
    return () => clearTimeout(timer);
  }, [loaded.data]);
  const data = loaded.data ?? kept;
  if (!data) return html`<${Loaded} of=${loaded}>${() => null}<//>`;
  const [name] = path;
  if (!name) return html`<${DatabaseList} data=${data} />`;
  const found = data.databases.find((/** @type {any} */ each) => each.name === name);
  return found
    ? html`<${DatabaseView} key=${name} of=${found} />`
    : html`<${Trouble} problem=${new Problem(404, "", t("databases.no_such"))} />`;
}

/** @param {...string} parts */
const joined = (...parts) => parts.filter(Boolean).join(" · ");

/** @param {any} its @returns {string} how much there is in a database */
const counts = (its) =>
  `${t("databases.entries", { count: its.entries })} · ${t("databases.files", { count: its.files })}, ${size(its.bytes)}`;

/** @param {{data: any}} props */
function DatabaseList({ data }) {
  return html`<header class="screen-head"><h1>${t("databases.title")}</h1></header>
    ${
      data.databases.length === 0
        ? html`<${Empty} title=${t("databases.none")}
            ><p>${t("databases.how")} <code>${data.folder}</code></p><//
          >`
        : html`<ul class="entries">
            ${data.databases.map(
              (/** @type {any} */ each) =>
                html`<li key=${each.name}>
                  <a class="entry" href=${`/studio/databases/${encodeURIComponent(each.name)}`}>
                    <span class="entry-name"><bdi>${each.title}</bdi></span>
                    <span class="soft entry-about"
                      ><bdi class="mono">${each.name}</bdi> · ${counts(each)}</span
                    >
                    <span class="row entry-marks"><${State} of=${each} /></span>
                  </a>
                </li>`,
            )}
          </ul>`
    }`;
}

/** @param {{of: any}} props */
function State({ of: { trouble, finished, done, total, entries, set_aside: aside } }) {
  const marks = [];
  if (trouble) marks.push(html`<${Badge} kind="bad">${t("databases.broken")}<//>`);
  else if (!finished) {
    marks.push(
      html`<${Badge} kind="calm"
        >${total ? t("databases.reading", { done, total }) : t("databases.beginning")}<//
      >`,
    );
  } else if (!entries) marks.push(html`<${Badge}>${t("databases.empty")}<//>`);
  else marks.push(html`<${Badge} kind="good">${t("databases.ready")}<//>`);
  if (aside) marks.push(html`<${Badge} kind="bad">${t("databases.aside", { count: aside })}<//>`);
  return html`${marks}`;
}

/** @param {{of: any}} props */
function DatabaseView({ of: its }) {
  const passed = Object.entries(its.passed_over);
  return html`<header class="screen-head">
      <div class="crumbs">
        <a href="/studio/databases">${t("databases.title")}</a> <span class="soft" aria-hidden="true">/</span>
        <h1 dir="auto">${its.title}</h1>
      </div>
      <span class="row"><${State} of=${its} /></span>
    </header>
    <div class="stack measure">
      ${its.trouble && html`<${Trouble} problem=${new Problem(409, "", its.trouble)} />`}
      ${!its.finished && its.total > 0 && html`<progress max=${its.total} value=${its.done} aria-label=${t("databases.progress")}></progress>`}
      <p class="soft about" dir="auto">${its.about || t("databases.no_about")}</p>
      <p class="small soft">
        ${`${counts(its)} · `}<bdi class="mono">${its.folder}</bdi>
        ${its.personas.length > 0 && [` · ${t("databases.used_by")} `, html`<bdi>${its.personas.join(", ")}</bdi>`]}
      </p>
      <${Asking} name=${its.name} />
      ${
        its.faults.length > 0 &&
        html`<section class="stack">
          <h2>${t("databases.aside", { count: its.set_aside })}</h2>
          <ul class="plain rows">
            ${its.faults.map(
              (/** @type {any} */ fault) =>
                html`<li>
                  <bdi class="mono">${fault.file}</bdi> <span class="soft" dir="auto">${fault.reason}</span>
                </li>`,
            )}
          </ul>
        </section>`
      }
      ${
        passed.length > 0 &&
        html`<p class="small soft">
          ${`${t("databases.passed_over")} ${passed.map(([end, count]) => `${end || "–"} ${number(count)}`).join(" · ")}`}
        </p>`
      }
    </div>`;
}

/** Search, or ask: the words are the same, what is done with them differs. @param {{name: string}} props */
function Asking({ name }) {
  const [words, setWords] = useState("");
  const [busy, setBusy] = useState("");
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const stop = useRef(/** @type {AbortController | null} */ (null));
  const path = `${LIST}/${encodeURIComponent(name)}`;
  useEffect(() => () => stop.current?.abort(), []);

  /** @param {() => Promise<void>} work */
  const doing = async (work) => {
    setProblem(null);
    setFound(null);
    setTold(null);
    try {
      await work();
    } catch (error) {
      if (!stop.current?.signal.aborted) setProblem(asProblem(error));
    }
    setBusy("");
  };
  /** @param {Event} event */
  const search = (event) => {
    event.preventDefault();
    setBusy(t("databases.searching"));
    void doing(async () => setFound(await post(`${path}/search`, { query: words })));
  };
  const ask = () => {
    setBusy(t("databases.asking"));
    stop.current = new AbortController();
    const { signal } = stop.current;
    void doing(async () => {
      const answer = await request("POST", `${path}/query`, {
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ question: words }),
        signal,
      });
      for await (const { data } of eventsIn(answer)) {
        if (data.error || data.event === "error") throw new Problem(409, "", data.error ?? data.text);
        if (data.event === "progress") setBusy(data.text || t("databases.asking"));
        if (data.event === "result") setTold(data.result);
      }
    });
  };
  return html`<section class="stack">
    <form class="row" role="search" onSubmit=${search}>
      <input
        type="search"
        class="fill"
        dir="auto"
        aria-label=${t("databases.words")}
        placeholder=${t("databases.words")}
        maxlength="2000"
        required
        value=${words}
        onInput=${(/** @type {any} */ event) => setWords(event.target.value)}
      />
      <button disabled=${busy || !words.trim()}>${t("databases.search")}</button>
      <button type="button" class="quiet" disabled=${busy || !words.trim()} onClick=${ask}>
        ${t("databases.ask")}
      </button>
    </form>
    ${busy && html`<${Waiting} label=${busy} />`}
    <${Trouble} problem=${problem} />
    ${found && html`<${Hits} of=${found} />`} ${told && html`<${Facts} of=${told} />`}
  </section>`;
}

/** What a model gets from a search. @param {{of: any}} props */
function Hits({ of: found }) {
  return html`<div class="stack" aria-live="polite">
    ${Object.entries(found.read_as ?? {}).map(
      ([typed, word]) =>
        html`<p class="soft small">${t("databases.read_as", { typed, word: String(word) })}</p>`,
    )}
    ${found.note && html`<p class="soft">${found.note}</p>`}
    <ol class="hits">
      ${found.results.map(
        (/** @type {any} */ hit) =>
          html`<li key=${hit.id}>
            <p class="row">
              <strong dir="auto">${hit.title}</strong>
              <span class="soft small" dir="auto"
                >${joined(hit.section, t("databases.id", { id: String(hit.id) }))}</span
              >
            </p>
            <p dir="auto">${hit.snippet}</p>
          </li>`,
      )}
    </ol>
    <${AsModel} of=${found} />
  </div>`;
}

/** What a model gets for a question, with where it stands. @param {{of: any}} props */
function Facts({ of: told }) {
  return html`<div class="stack" aria-live="polite">
    ${told.relevant.length === 0 && html`<p class="soft">${told.note ?? t("databases.no_facts")}</p>`}
    <ol class="hits">
      ${told.relevant.map(
        (/** @type {any} */ fact) =>
          html`<li>
            <blockquote dir="auto">${fact.fact}</blockquote>
            <p class="soft small" dir="auto">
              ${joined(
                fact.source.title,
                fact.source.section,
                fact.source.page && t("databases.page", { page: fact.source.page }),
                t("databases.id", { id: String(fact.source.id) }),
              )}
            </p>
          </li>`,
      )}
    </ol>
    ${told.relevant.length > 0 && told.note && html`<p class="soft" dir="auto">${told.note}</p>`}
    <${AsModel} of=${told} />
  </div>`;
}

/** The same to the letter, as the model is given it. @param {{of: any}} props */
const AsModel = ({ of: result }) =>
  html`<details>
    <summary class="soft small">${t("databases.as_model")}</summary>
    <pre class="small" dir="auto">${JSON.stringify(result, null, 2)}</pre>
  </details>`;
