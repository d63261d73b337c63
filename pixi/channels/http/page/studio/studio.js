// The studio: who may come in, where things are, and the screen that the address names.
import { credentials, get, post, remove } from "../lib/api.js";
import { html, render, useEffect, useState } from "../lib/html.js";
import { asProblem, Trouble, Waiting } from "../lib/parts.js";
import { loadWords, spoken, t } from "../lib/words.js";

const SCREENS = [
  "live",
  "why",
  "persona",
  "queue",
  "talks",
  "people",
  "memory",
  "databases",
  "usage",
  "health",
];
const IN_MENU = SCREENS.filter((name) => name !== "why"); // one comes to Why from a reply

/** A part of a path as it was before it was encoded; one that never was stays as it is. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @returns {{screen: string, path: string[], query: URLSearchParams}} what the address names */
function place() {
  const parts = location.pathname.split("/").slice(2).filter(Boolean).map(decoded);
  const [screen = "live", ...path] = parts;
  return { screen, path, query: new URLSearchParams(location.search) };
}

/** Go to another address of the studio, without loading the page again.
 * @param {string} address such as `/studio/talks?persona=pixi`
 * @param {boolean} [instead] of this one, so that Back passes it by
 */
export function go(address, instead = false) {
  history[instead ? "replaceState" : "pushState"](null, "", address);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** Let links within the studio be followed in place.
 * @param {MouseEvent} event
 */
function followLink(event) {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey)
    return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!/^\/studio(\/|$)/.test(link.pathname)) return;
  event.preventDefault();
  go(link.pathname + link.search);
  document.querySelector("main")?.focus();
}

/** Where a key is entered by whoever has no link.
 * @param {{problem: import("../lib/api.js").Problem | null, onEnter: (key: string) => void}} props
 */
function Door({ problem, onEnter }) {
  const [key, setKey] = useState("");
  /** @param {Event} event */
  const enter = (event) => {
    event.preventDefault();
    onEnter(key.trim());
  };
  return html`<main class="door stack">
    <h1>${t("door.title")}</h1>
    <p class="soft">${t("door.link")}</p>
    <form class="stack" onSubmit=${enter}>
      <label class="stack"
        >${t("door.key")}
        <input
          type="password"
          autocomplete="current-password"
          value=${key}
          onInput=${(/** @type {any} */ event) => setKey(event.target.value)}
          placeholder="pixi_sk_…"
          required
        />
      </label>
      <button>${t("door.enter")}</button>
    </form>
    <${Trouble} problem=${problem} />
  </main>`;
}

/** @param {{name: string, path: string[], query: URLSearchParams}} props */
function Screen({ name, path, query }) {
  const [found, setFound] = useState(/** @type {{name: string, draw: any, problem: any} | null} */ (null));
  useEffect(() => {
    let wanted = true;
    import(`./screens/${name}.js`).then(
      (module) => wanted && setFound({ name, draw: module.default, problem: null }),
      () => wanted && setFound({ name, draw: null, problem: true }),
    );
    return () => {
      wanted = false;
    };
  }, [name]);
  if (found?.name !== name) return html`<${Waiting} />`;
  if (found.problem) {
    return html`<${Trouble} problem=${asProblem(null)} retry=${() => location.reload()} />`;
  }
  return html`<${found.draw} path=${path} query=${query} />`;
}

function Studio() {
  const [session, setSession] = useState(/** @type {{name: string} | null | undefined} */ (undefined));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [at, setAt] = useState(place());
  const [open, setOpen] = useState(false);

  /** @param {{name: string, csrf: string}} told */
  const enter = (told) => {
    credentials.csrf = told.csrf;
    setSession(told);
    setProblem(null);
  };
  /** @param {{link?: string, key?: string}} by */
  const knock = (by) =>
    post("/api/studio/session", by).then(enter, (error) => {
      setSession(null);
      setProblem(asProblem(error));
    });

  useEffect(() => {
    const link = new URLSearchParams(location.hash.slice(1)).get("link");
    if (link) history.replaceState(null, "", location.pathname + location.search);
    get("/api/studio/session").then(enter, () => (link ? knock({ link }) : setSession(null)));
    const moved = () => {
      setAt(place());
      setOpen(false);
    };
    addEventListener("popstate", moved);
    document.addEventListener("click", followLink);
    return () => {
      removeEventListener("popstate", moved);
      document.removeEventListener("click", followLink);
    };
  }, []);

  const known = SCREENS.includes(at.screen) ? at.screen : "live";
  useEffect(() => {
    document.title = `${t(`nav.${known}`)} · Pixi`;
  }, [known]);

  if (session === undefined) return html`<main><${Waiting} /></main>`;
  if (session === null) {
    return html`<${Door} problem=${problem} onEnter=${(/** @type {string} */ key) => knock({ key })} />`;
  }
  const leave = () => remove("/api/studio/session").finally(() => setSession(null));
  return html`<div class="studio">
    <a class="skip" href="#main">${t("nav.skip")}</a>
    <header class="studio-head">
      <button
        class="bare menu"
        aria-expanded=${open}
        aria-controls="nav"
        aria-label=${t("nav.menu")}
        onClick=${() => setOpen(!open)}
      >
        <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
          <path d="M2 5h16M2 10h16M2 15h16" stroke="currentColor" stroke-width="2" stroke-linecap="round" />
        </svg>
      </button>
      <a class="name" href="/studio">Pixi <span class="soft">studio</span></a>
    </header>
    <nav id="nav" class=${open ? "open" : ""} aria-label=${t("nav.label")}>
      <ul>
        ${IN_MENU.map(
          (name) =>
            html`<li key=${name}>
              <a href=${`/studio/${name}`} aria-current=${name === known ? "page" : null}
                >${t(`nav.${name}`)}</a
              >
            </li>`,
        )}
      </ul>
      <div class="nav-foot small">
        <a href="/">${t("nav.talk")}</a>
        <button class="bare small" onClick=${leave}>${t("nav.leave")}</button>
      </div>
    </nav>
    <main id="main" tabindex="-1">
      <${Screen} name=${known} path=${at.path} query=${at.query} />
    </main>
  </div>`;
}

await loadWords("studio");
document.documentElement.lang = spoken();
const root = document.getElementById("studio");
if (root) render(html`<${Studio} />`, root);
