// Commands that begin with a slash: what the terminal has, where it makes sense on a page.
import { get, personaNamed, post } from "../lib/api.js";
import { t } from "../lib/words.js";

/**
 * @typedef {object} Place what a command can do something with
 * @property {import("./session.js").Session} session
 * @property {import("./message.js").Persona[]} personas
 * @property {() => void} startNew
 * @property {(persona: string) => void} meet
 * @property {() => void} editLast
 * @property {(text: string) => void} put into the field
 * @property {() => void} clear what is kept of talks in this browser
 */

/** @type {Record<string, (place: Place, argument: string) => Promise<string> | string>} each tells in words what it did */
const RUN = {
  help: () => COMMANDS.map((name) => `\`/${name}\` ${t(`commands.${name}`)}`).join("\n"),
  new: ({ startNew }) => {
    startNew();
    return "";
  },
  retry: async ({ session }) => {
    const last = lastOwn(session);
    if (!last) return t("commands.nothing");
    await session.again(last.id);
    return "";
  },
  edit: async ({ session, editLast }, argument) => {
    const last = lastOwn(session);
    if (!last) return t("commands.nothing");
    if (argument) await session.say(argument, { replaces: last.id });
    else editLast();
    return "";
  },
  undo: async ({ session, put }) => {
    put((await session.undo()).join("\n"));
    return "";
  },
  persona: ({ personas, meet }, argument) => {
    const found = personaNamed(personas, argument);
    if (!found) return personas.map((each) => `\`/persona ${each.id}\` ${each.name}`).join("\n");
    meet(found.id);
    return "";
  },
  usage: async () => {
    const { shares, model } = await get("/api/usage");
    const lines = shares.map((/** @type {any} */ { kind, used, limit }) =>
      t(`commands.used.${kind}`, { used, limit }),
    );
    return [model ?? "", ...lines].filter(Boolean).join("\n") || t("commands.unlimited");
  },
  reset: async ({ session }) => {
    await session.reset();
    return t("commands.forgotten");
  },
  export: async () => {
    const kept = JSON.stringify(await get("/api/me/export"), null, 2);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([kept], { type: "application/json" }));
    link.download = "pixi.json";
    link.click();
    URL.revokeObjectURL(link.href);
    return "";
  },
  forget: async ({ clear }, argument) => {
    if (argument !== "me yes") return t("commands.sure");
    await post("/api/me/forget", { really: true });
    clear();
    return t("commands.allForgotten");
  },
};

const COMMANDS = Object.keys(RUN);

/** All commands, with what each does. @returns {{name: string, about: string}[]} */
export const commands = () => COMMANDS.map((name) => ({ name, about: t(`commands.${name}`) }));

/**
 * Do what a line asks for that begins with a slash.
 * @param {string} line @param {Place} place
 * @returns {Promise<string>} what to tell the person, as Markdown; "": nothing
 */
export async function run(line, place) {
  const [, name = "", argument = ""] = /^\/(\S*)\s*([^]*)$/.exec(line) ?? [];
  const command = Object.hasOwn(RUN, name) ? RUN[name] : undefined;
  return command ? command(place, argument.trim()) : t("commands.unknown", { name: `/${name}` });
}

/** @param {import("./session.js").Session} session */
export const lastOwn = (session) =>
  session.talk.messages.findLast((each) => each.role === "user" && !each.fate);
