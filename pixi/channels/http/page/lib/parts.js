// Small parts that all screens are made of.
import { html, useEffect, useRef, useState } from "./html.js";
import { get, Problem } from "./api.js";
import { t } from "./words.js";

/**
 * Load something of the server, and again when `path` changes or `reload` is called.
 * @param {string} path of a GET route; "": nothing is loaded
 * @returns {{data: any, problem: Problem | null, loading: boolean, reload: () => void}}
 */
export function useLoaded(path) {
  const [state, setState] = useState(
    /** @type {{path: string, data: any, problem: Problem | null}} */ ({
      path: "",
      data: null,
      problem: null,
    }),
  );
  const [again, setAgain] = useState(0);
  useEffect(() => {
    if (!path) return undefined;
    let wanted = true;
    get(path).then(
      (data) => wanted && setState({ path, data, problem: null }),
      (problem) => wanted && setState({ path, data: null, problem: asProblem(problem) }),
    );
    return () => {
      wanted = false;
    };
  }, [path, again]);
  const fresh = state.path === path;
  return {
    data: fresh ? state.data : null,
    problem: fresh ? state.problem : null,
    loading: Boolean(path) && !fresh,
    reload: () => setAgain((count) => count + 1),
  };
}

/** @param {unknown} error @returns {Problem} */
export function asProblem(error) {
  if (error instanceof Problem) return error;
  console.error(error);
  return new Problem(0, "broken", t("shared.broken"));
}

/** What went wrong, in words, with a button to try again.
 * @param {{problem: Problem | null, retry?: () => void}} props
 */
export function Trouble({ problem, retry }) {
  if (!problem) return null;
  const words = problem.detail || (problem.status ? problem.title : t("shared.offline"));
  return html`<div class="trouble" role="alert">
    <p>${words}</p>
    ${retry && html`<button class="quiet" onClick=${retry}>${t("shared.again")}</button>`}
  </div>`;
}

/** @param {{label?: string}} props */
export const Waiting = ({ label }) =>
  html`<p class="waiting" role="status">
    <span class="dots" aria-hidden="true"></span>${label ?? t("shared.loading")}
  </p>`;

/** Says that there is nothing, and what to do to have something.
 * @param {{title: string, children?: any}} props
 */
export const Empty = ({ title, children }) =>
  html`<div class="empty">
    <p class="empty-title">${title}</p>
    ${children}
  </div>`;

/** What is loaded, or why it is not: `children` is called with the data.
 * @param {{of: ReturnType<typeof useLoaded>, children: (data: any) => any}} props
 */
export function Loaded({ of, children }) {
  if (of.problem) return html`<${Trouble} problem=${of.problem} retry=${of.reload} />`;
  return of.data === null ? html`<${Waiting} />` : children(of.data);
}

/** A question in front of everything, answered by its buttons; Escape closes it.
 * @param {{title: string, onClose: () => void, children: any}} props
 */
export function Dialog({ title, onClose, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${onClose}>
    <h2>${title}</h2>
    ${children}
  </dialog>`;
}

/** One line that tells that something was done, for a few seconds.
 * @returns {[any, (text: string) => void]} the node, and how to say something
 */
export function useNotice() {
  const [text, setText] = useState("");
  useEffect(() => {
    if (!text) return undefined;
    const timer = setTimeout(() => setText(""), 4000);
    return () => clearTimeout(timer);
  }, [text]);
  return [html`<p class="notice" role="status">${text}</p>`, setText];
}

/** A time that a machine can read, too.
 * @param {{at: number, children: any}} props `at`: seconds since the epoch
 */
export const Time = ({ at, children }) =>
  html`<time datetime=${new Date(at * 1000).toISOString()} title=${new Date(at * 1000).toLocaleString()}
    >${children}</time
  >`;

/** A small label. `kind`: good, bad, calm or none.
 * @param {{kind?: string, children: any}} props
 */
export const Badge = ({ kind = "", children }) => html`<span class=${`badge ${kind}`}>${children}</span>`;
