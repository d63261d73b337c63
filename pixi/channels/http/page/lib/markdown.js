// Strangers' Markdown as nodes. Nothing here makes HTML of text: what is not known stays the text that it is.
//
// What is read: paragraphs, line breaks, **bold**, *italic*, ~~struck~~, `code`, ``` blocks, > quotes, lists,
// # headings (as bold lines), [links](https://…) and bare addresses. Links go to http(s) and to the schemes
// that the server names. Each piece is looked at once: a hostile text takes no longer than another.
import { h } from "./html.js";

/** Schemes of links that an operator allowed beyond http and https, such as `trickbook`. */
export const schemes = new Set(["http", "https"]);

/**
 * Return an address as it may stand in a link; "" where it may not.
 * @param {string} address
 */
export function safeLink(address) {
  try {
    const url = new URL(address);
    return schemes.has(url.protocol.slice(0, -1)) ? url.href : "";
  } catch {
    return "";
  }
}

const INLINE =
  /`([^`\n]+)`|\*\*([^*\n]+)\*\*|~~([^~\n]+)~~|(?<![\w*])\*([^*\s][^*\n]*)\*|(?<!\w)_([^_\s][^_\n]*)_(?!\w)|\[([^[\]\n]{1,500})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>"'`]{1,2000}[^\s<>"'`.,:;!?)\]}])/g;

/**
 * @param {string} text a line
 * @param {number} depth of nesting
 * @returns {any[]}
 */
function inline(text, depth = 0) {
  if (depth > 3) return [text];
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    nodes.push(text.slice(end, found.index));
    end = found.index + found[0].length;
    const [whole, code, bold, struck, italic, italic2, label, address, bare] = found;
    const href = safeLink(address ?? bare ?? "");
    if (code) nodes.push(h("code", {}, code));
    else if (bold) nodes.push(h("strong", {}, inline(bold, depth + 1)));
    else if (struck) nodes.push(h("s", {}, inline(struck, depth + 1)));
    else if (italic ?? italic2) nodes.push(h("em", {}, inline(italic ?? italic2 ?? "", depth + 1)));
    else if (href) nodes.push(link(href, label ? inline(label, depth + 1) : [bare]));
    else nodes.push(whole);
  }
  nodes.push(text.slice(end));
  return nodes.filter((node) => node !== "");
}

/** @param {string} href @param {any[]} shown */
const link = (href, shown) =>
  h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow ugc" }, shown);

/** @param {string[]} lines */
const broken = (lines) => lines.flatMap((line, at) => (at ? [h("br", {}), ...inline(line)] : inline(line)));

/**
 * Return the nodes of a text.
 * @param {string} text
 * @returns {any[]}
 */
export function markdown(text) {
  const lines = text.split("\n");
  const nodes = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at] ?? "";
    const from = at;
    /** @param {(line: string) => boolean} holds */
    const take = (holds) => {
      while (at < lines.length && holds(lines[at] ?? "")) at += 1;
      return lines.slice(from, at);
    };
    if (line.startsWith("```")) {
      at += 1;
      const code = take((each) => !each.startsWith("```")).slice(1);
      at += 1;
      nodes.push(h("pre", { dir: "ltr" }, h("code", {}, code.join("\n"))));
    } else if (!line.trim()) {
      at += 1;
    } else if (line.startsWith(">")) {
      const quoted = take((each) => each.startsWith(">")).map((each) => each.replace(/^> ?/, ""));
      nodes.push(h("blockquote", {}, broken(quoted)));
    } else if (/^\s*[-*+] /.test(line)) {
      const items = take((each) => /^\s*[-*+] /.test(each));
      nodes.push(
        h(
          "ul",
          {},
          items.map((each) => h("li", {}, inline(each.replace(/^\s*[-*+] /, "")))),
        ),
      );
    } else if (/^\s*\d{1,9}[.)] /.test(line)) {
      const items = take((each) => /^\s*\d{1,9}[.)] /.test(each));
      const start = Number.parseInt(line, 10);
      nodes.push(
        h(
          "ol",
          { start },
          items.map((each) => h("li", {}, inline(each.replace(/^\s*\d{1,9}[.)] /, "")))),
        ),
      );
    } else if (/^#{1,6} /.test(line)) {
      at += 1;
      nodes.push(h("p", {}, h("strong", {}, inline(line.replace(/^#{1,6} /, "")))));
    } else {
      at += 1;
      const more = take((each) => !!each.trim() && !/^(```|>|\s*[-*+] |\s*\d{1,9}[.)] |#{1,6} )/.test(each));
      nodes.push(h("p", {}, broken([line, ...more.slice(1)])));
    }
  }
  return nodes;
}
