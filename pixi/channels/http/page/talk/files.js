// Files on their way to the server, each with how far it came.
import { headers, server } from "../lib/api.js";
import { size, t } from "../lib/words.js";

/**
 * @typedef {object} Upload
 * @property {number} key
 * @property {string} name
 * @property {number} size bytes
 * @property {number} part of it that has gone, from 0 to 1
 * @property {string} id that the server gave; "": it is not there yet
 * @property {string} mediaType
 * @property {string} picture address of it in this page; "": it is none that can be shown
 * @property {string} trouble why it is not there, in words
 * @property {() => void} cancel
 */

const SHOWN = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

let count = 0;

/**
 * Send a file; `changed` hears of each step. Only XMLHttpRequest tells how much of a body has gone.
 * @param {File} file
 * @param {number} most bytes that the server takes
 * @param {(upload: Upload) => void} changed
 * @returns {Upload}
 */
export function upload(file, most, changed) {
  const sending = new XMLHttpRequest();
  count += 1;
  /** @type {Upload} */
  let state = {
    key: count,
    name: file.name,
    size: file.size,
    part: 0,
    id: "",
    mediaType: file.type,
    picture: SHOWN.has(file.type) ? URL.createObjectURL(file) : "",
    trouble: file.size > most ? t("talk.tooBig", { most: size(most) }) : "",
    cancel: () => {
      sending.abort();
      URL.revokeObjectURL(state.picture);
    },
  };
  if (state.trouble) return state;
  /** @param {Partial<Upload>} news */
  const set = (news) => {
    state = { ...state, ...news };
    changed(state);
  };
  const body = new FormData();
  body.append("file", file);
  sending.upload.onprogress = (event) => set({ part: event.total ? event.loaded / event.total : 0 });
  sending.onload = () => {
    const told = read(sending.responseText);
    if (sending.status === 200) set({ part: 1, id: told.id, mediaType: told.mediaType });
    else set({ trouble: told.detail || String(sending.status) });
  };
  sending.onerror = () => set({ trouble: t("shared.offline") });
  sending.open("POST", `${server.origin}/api/files`);
  for (const [name, value] of Object.entries(headers())) sending.setRequestHeader(name, value);
  sending.send(body);
  return state;
}

/** @param {string} text @returns {any} */
function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
