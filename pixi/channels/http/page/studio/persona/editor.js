// The editor: a text area over a layer of the same text in colours. Both lie in one cell of a grid, so that
// they wrap alike and the box around them scrolls both. Each line has the direction of its own words.
import { html, useEffect, useMemo, useRef } from "../../lib/html.js";
import { endOfFrontMatter, piecesOf } from "./highlight.js";

const MOST_COLOURED = 60_000; // characters; a longer text is shown plain, so that typing stays quick

/** @typedef {{line: number | null, text: string, stops: boolean}} PersonaProblem */

/**
 * @param {string} text
 * @param {Map<number, PersonaProblem>} problems by line
 * @param {Map<string, any>} known lines that were drawn before: the same line is the same node
 */
function drawn(text, problems, known) {
  const lines = text.split("\n");
  const front = endOfFrontMatter(lines);
  const plain = text.length > MOST_COLOURED;
  const nodes = lines.map((line, place) => {
    const problem = problems.get(place + 1);
    const kind = problem ? (problem.stops ? "stops" : "amiss") : "";
    const name = `${place} ${kind} ${place <= front} ${line}`;
    const before = known.get(name);
    if (before) return before;
    const pieces = plain ? [{ kind: "", text: line }] : piecesOf(line, place <= front);
    const node = html`<span class=${`text-line ${kind}`} key=${place}
      >${pieces.map((piece) => (piece.kind ? html`<span class=${`t-${piece.kind}`}>${piece.text}</span>` : piece.text))}${"\n"}</span
    >`;
    known.set(name, node);
    return node;
  });
  if (known.size > 4 * lines.length + 200) known.clear();
  return nodes;
}

/**
 * @param {{
 *   text: string,
 *   label: string,
 *   problems: PersonaProblem[],
 *   readOnly: boolean,
 *   shown: {line: number, count: number} | null,
 *   onText: (text: string) => void,
 *   onSave: () => void,
 * }} props `shown`: a line to go to; another `count` goes there again
 */
export function Editor({ text, label, problems, readOnly, shown, onText, onSave }) {
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const layer = useRef(/** @type {HTMLElement | null} */ (null));
  const known = useRef(/** @type {Map<string, any>} */ (new Map()));
  const byLine = useMemo(() => {
    /** @type {Map<number, PersonaProblem>} */
    const found = new Map();
    for (const each of problems) {
      if (each.line !== null && !found.get(each.line)?.stops) found.set(each.line, each);
    }
    return found;
  }, [problems]);
  const lines = useMemo(() => drawn(text, byLine, known.current), [text, byLine]);

  useEffect(() => {
    if (!shown || !area.current) return;
    const all = text.split("\n");
    const start = all.slice(0, shown.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    area.current.focus({ preventScroll: true });
    area.current.setSelectionRange(start, start + (all[shown.line - 1]?.length ?? 0));
    layer.current?.children[shown.line - 1]?.scrollIntoView({ block: "center" });
  }, [shown]);

  /** @param {KeyboardEvent} event */
  const pressed = (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
      event.preventDefault();
      onSave();
    }
  };
  const digits = String(lines.length).length;
  return html`<div class="editor" style=${{ "--digits": `${digits}ch` }}>
    <pre class="layer" aria-hidden="true" ref=${layer}>${lines}</pre>
    <textarea
      ref=${area}
      aria-label=${label}
      value=${text}
      readonly=${readOnly}
      spellcheck="false"
      autocapitalize="off"
      autocomplete="off"
      onInput=${(/** @type {any} */ event) => onText(event.target.value)}
      onKeyDown=${pressed}
    ></textarea>
  </div>`;
}
