// The text of a persona's file, taken apart for colours: no more than a reader needs to find their way.

/** @typedef {{kind: string, text: string}} Piece a stretch of a line; `kind` is "" for plain text */

const COMMAND = /\[([A-Z][A-Z_]*)\b[^\]\n]*\]?|\{\{[^{}\n]*\}\}/g;
const KEY = /^([A-Za-z_]+)(:)(.*)$/;
const OWN_COLOURS = new Set(["send", "react", "note"]);

/**
 * Tell where the front matter ends.
 * @param {string[]} lines
 * @returns {number} the place of its last line; -1: there is none
 */
export function endOfFrontMatter(lines) {
  if (lines[0]?.trim() !== "---") return -1;
  return lines.findIndex((line, place) => place > 0 && line.trim() === "---");
}

/**
 * Take a line apart.
 * @param {string} line
 * @param {boolean} inFront it belongs to the front matter
 * @returns {Piece[]}
 */
export function piecesOf(line, inFront) {
  if (inFront) {
    if (line.trim() === "---") return [{ kind: "mark", text: line }];
    const key = KEY.exec(line);
    if (!key) return [{ kind: "", text: line }];
    const [, name = "", colon = "", rest = ""] = key;
    return [
      { kind: "key", text: name },
      { kind: "mark", text: colon },
      { kind: "", text: rest },
    ];
  }
  if (/^ {0,3}#{1,6}\s/.test(line)) return [{ kind: "heading", text: line }];
  if (/^ {0,3}>/.test(line)) return [{ kind: "said", text: line }];
  const pieces = [];
  let end = 0;
  for (const found of line.matchAll(COMMAND)) {
    if (found.index > end) pieces.push({ kind: "", text: line.slice(end, found.index) });
    const name = found[1]?.toLowerCase() ?? "";
    const kind = name ? (OWN_COLOURS.has(name) ? name : "command") : "filled";
    pieces.push({ kind, text: found[0] });
    end = found.index + found[0].length;
  }
  if (end < line.length) pieces.push({ kind: "", text: line.slice(end) });
  return pieces;
}

/**
 * Compare two texts by lines: what both begin and end with is the same, what is between differs.
 * @param {string} before
 * @param {string} now
 * @returns {{kind: "same" | "gone" | "new", text: string}[]} with three lines around what differs
 */
export function differing(before, now) {
  const old = before.split("\n");
  const its = now.split("\n");
  let first = 0;
  while (first < old.length && first < its.length && old[first] === its[first]) first += 1;
  let last = 0;
  const room = Math.min(old.length, its.length) - first;
  while (last < room && old[old.length - 1 - last] === its[its.length - 1 - last]) last += 1;
  /** @type {(kind: "same" | "gone" | "new") => (text: string) => {kind: "same" | "gone" | "new", text: string}} */
  const as = (kind) => (text) => ({ kind, text });
  return [
    ...old.slice(Math.max(0, first - 3), first).map(as("same")),
    ...old.slice(first, old.length - last).map(as("gone")),
    ...its.slice(first, its.length - last).map(as("new")),
    ...its
      .slice(its.length - last)
      .slice(0, 3)
      .map(as("same")),
  ];
}
