// A talk as it stands: events and answers of the server go in, what is to be drawn comes out. Nothing here
// asks, waits or draws, and no state is changed: each function returns another.

/**
 * @typedef {{title: string, text: string, fields: {name: string, value: string}[], picture: string | null,
 *   link: string}} Fallback
 * @typedef {{type: string, version: number, data: any, fallback: Fallback}} Card
 * @typedef {{text: string, link: string, service: string}} Picture
 * @typedef {{name: string, picture: boolean, url: string}} Carried
 * @typedef {{id: string, emoji: string, message: string}} Reaction
 *
 * @typedef {object} Message
 * @property {string} id
 * @property {"user" | "assistant"} role
 * @property {string} text
 * @property {number} turn that it belongs to; 0: none yet
 * @property {number} at seconds since the epoch; 0: not known
 * @property {Card[]} cards
 * @property {Picture | null} picture
 * @property {Record<string, string>} pictures addresses in cards and pictures, each with the server's own
 * @property {Reaction[]} reactions
 * @property {Carried[]} attachments
 * @property {number[]} siblings turns that could stand in its place
 * @property {boolean} growing it is still being written
 * @property {"" | "sending" | "failed"} fate of what was entered here
 *
 * @typedef {object} Question
 * @property {string} id
 * @property {string} tool
 * @property {string} does
 * @property {string} arguments
 * @property {number} expires seconds since the epoch
 *
 * @typedef {{turn: number, finish: string, sources: {title: string, url: string}[], siblings: number[]}} Turn
 *
 * @typedef {object} Talk
 * @property {boolean} loaded
 * @property {string} persona the name of its file
 * @property {Message[]} messages oldest first
 * @property {Record<number, Turn>} turns
 * @property {Reaction[]} elsewhere reactions to messages that are not loaded
 * @property {boolean} more there is something before them
 * @property {number} turn under way; 0: none is
 * @property {boolean} waiting something is answered, or about to be
 * @property {Question[]} questions that wait for an answer
 * @property {string} doing what takes time, for people
 * @property {string} trouble what went wrong last, for people
 * @property {boolean} branched the answer under way stands in the place of another
 * @property {boolean} stale what was said before is not as it was: it is to be loaded anew
 */

/** @type {Talk} */
export const EMPTY = {
  loaded: false,
  persona: "",
  messages: [],
  turns: {},
  elsewhere: [],
  more: false,
  turn: 0,
  waiting: false,
  questions: [],
  doing: "",
  trouble: "",
  branched: false,
  stale: false,
};

/** @type {Message} */
const BLANK = {
  id: "",
  role: "assistant",
  text: "",
  turn: 0,
  at: 0,
  cards: [],
  picture: null,
  pictures: {},
  reactions: [],
  attachments: [],
  siblings: [],
  growing: false,
  fate: "",
};

/** @param {any} told @returns {Message} */
const read = (told) => ({ ...BLANK, ...told, at: told.at ?? 0 });

/** @param {any[]} told @returns {Record<number, Turn>} */
const byNumber = (told) => Object.fromEntries(told.map((turn) => [turn.turn, turn]));

/**
 * Take what `GET …/messages` told of the latest messages. What was entered here and is not there yet stays.
 * @param {Talk} talk
 * @param {any} answer
 * @returns {Talk}
 */
export function loaded(talk, answer) {
  const messages = answer.messages.map(read);
  const known = new Set(messages.map((/** @type {Message} */ each) => each.id));
  const pending = talk.messages.filter((each) => each.fate && !known.has(each.id));
  return {
    ...EMPTY,
    loaded: true,
    persona: answer.persona,
    messages: [...messages, ...pending],
    turns: byNumber(answer.turns),
    elsewhere: answer.reactions,
    more: answer.more,
    turn: answer.underWay,
    waiting: answer.waiting,
    branched: talk.branched,
    questions: answer.underWay && answer.underWay === talk.turn ? talk.questions : [],
  };
}

/**
 * Take an earlier page of messages.
 * @param {Talk} talk
 * @param {any} answer
 * @returns {Talk}
 */
export function earlier(talk, answer) {
  const known = new Set(talk.messages.map((each) => each.id));
  const before = answer.messages.map(read).filter((/** @type {Message} */ each) => !known.has(each.id));
  /** @type {Talk} */
  const longer = {
    ...talk,
    messages: [...before, ...talk.messages],
    turns: { ...byNumber(answer.turns), ...talk.turns },
    elsewhere: answer.reactions,
    more: answer.more,
  };
  return talk.elsewhere.reduce(reacted, longer);
}

/** The turn from which on earlier messages are asked for; 0: there are none.
 * @param {Talk} talk
 */
export function firstTurn(talk) {
  return talk.messages.find((each) => each.turn > 0)?.turn ?? 0;
}

/**
 * Show what a person enters before the server has it.
 * @param {Talk} talk
 * @param {{id: string, text: string, attachments: Carried[], at: number}} entered `id` is the page's own
 * @returns {Talk}
 */
export function entered(talk, entered) {
  const message = {
    ...BLANK,
    ...entered,
    role: /** @type {const} */ ("user"),
    fate: /** @type {const} */ ("sending"),
  };
  return { ...talk, messages: [...talk.messages, message], waiting: true, trouble: "" };
}

/**
 * The server has what was entered, under an id of its own.
 * @param {Talk} talk
 * @param {string} own the page's id
 * @param {string} id
 * @returns {Talk}
 */
export function accepted(talk, own, id) {
  const came = talk.messages.some((each) => each.id === id);
  return {
    ...talk,
    messages: came
      ? talk.messages.filter((each) => each.id !== own)
      : talk.messages.map((each) => (each.id === own ? { ...each, id, fate: "" } : each)),
  };
}

/**
 * The server does not have what was entered.
 * @param {Talk} talk
 * @param {string} own the page's id
 * @param {string} trouble
 * @returns {Talk}
 */
export function refused(talk, own, trouble) {
  const messages = talk.messages.map((each) =>
    each.id === own ? { ...each, fate: /** @type {const} */ ("failed") } : each,
  );
  return { ...talk, messages, trouble, waiting: talk.turn > 0 };
}

/**
 * What failed is sent once more.
 * @param {Talk} talk
 * @param {string} own the page's id
 * @returns {Talk}
 */
export function resent(talk, own) {
  const messages = talk.messages.map((each) =>
    each.id === own ? { ...each, fate: /** @type {const} */ ("sending") } : each,
  );
  return { ...talk, messages, waiting: true, trouble: "" };
}

/**
 * Take an event of the talk.
 * @param {Talk} talk
 * @param {any} event
 * @returns {Talk}
 */
export function heard(talk, event) {
  switch (event.event) {
    case "said":
      return said(talk, event);
    case "changed":
      return { ...talk, branched: true, stale: true };
    case "turn_start":
      return begun(talk, event);
    case "started":
      return event.name === "send" ? grown(talk, event, "") : talk;
    case "text":
      return event.name === "send" ? grown(talk, event, event.text) : talk;
    case "send":
      return put(talk, { ...BLANK, id: event.id, text: event.text, turn: event.turn });
    case "card":
      return put(talk, {
        ...BLANK,
        id: event.id,
        turn: event.turn,
        cards: [event],
        pictures: event.pictures ?? {},
      });
    case "picture":
      return put(talk, {
        ...BLANK,
        id: event.id,
        turn: event.turn,
        picture: event,
        pictures: event.pictures ?? {},
      });
    case "react":
      return reacted(talk, event);
    case "approval":
      return { ...talk, questions: [...without(talk.questions, event.id), event] };
    case "approved":
      return { ...talk, questions: without(talk.questions, event.id) };
    case "reading":
    case "progress":
      return { ...talk, doing: event.text ?? "" };
    case "sources":
      return inTurn(talk, event.turn, { sources: event.sources });
    case "error":
      return { ...talk, trouble: event.text };
    case "turn_end":
      return ended(talk, event);
    default:
      return talk;
  }
}

/** @param {Talk} talk @param {any} event @returns {Talk} */
function said(talk, event) {
  const attachments = event.attachments.map((/** @type {string} */ name) => ({
    name,
    picture: false,
    url: "",
  }));
  // The same may have been entered here: the server's answer comes by another way, and tells the id.
  const mine = talk.messages.find((each) => each.fate === "sending" && each.text === event.text);
  if (mine) return accepted(talk, mine.id, event.id);
  const message = {
    ...BLANK,
    id: event.id,
    role: /** @type {const} */ ("user"),
    text: event.text,
    at: event.at,
    attachments,
  };
  return { ...put(talk, message), waiting: true };
}

/** @param {Talk} talk @param {any} event @returns {Talk} */
function begun(talk, event) {
  const answers = new Set(event.answers);
  const messages = talk.messages.map((each) => (answers.has(each.id) ? { ...each, turn: event.turn } : each));
  return { ...talk, messages, turn: event.turn, waiting: true, doing: "", trouble: "" };
}

/** @param {Talk} talk @param {any} event @param {string} text @returns {Talk} */
function grown(talk, event, text) {
  const before = talk.messages.find((each) => each.id === event.id);
  if (before && !before.growing) return talk; // it is there as a whole
  const message = before ?? { ...BLANK, id: event.id, turn: event.turn, growing: true };
  return put({ ...talk, doing: "" }, { ...message, text: (message.text + text).trimStart() });
}

/**
 * Put a message in its place: that of the one with its id, else at the end.
 * @param {Talk} talk
 * @param {Message} message
 * @returns {Talk}
 */
function put(talk, message) {
  const at = talk.messages.findIndex((each) => each.id === message.id);
  if (at < 0) return { ...talk, messages: [...talk.messages, message] };
  const before = /** @type {Message} */ (talk.messages[at]);
  const kept = { reactions: before.reactions, siblings: before.siblings, at: before.at || message.at };
  const attachments = before.attachments.length ? before.attachments : message.attachments;
  return {
    ...talk,
    messages: talk.messages.with(at, { ...message, ...kept, attachments, turn: message.turn || before.turn }),
  };
}

/** @param {Talk} talk @param {Reaction} reaction @returns {Talk} */
function reacted(talk, reaction) {
  const at = talk.messages.findIndex((each) => each.id === reaction.message);
  if (at < 0) return { ...talk, elsewhere: [...without(talk.elsewhere, reaction.id), reaction] };
  const on = /** @type {Message} */ (talk.messages[at]);
  const reactions = [...without(on.reactions, reaction.id), reaction];
  return { ...talk, messages: talk.messages.with(at, { ...on, reactions }) };
}

/** @param {Talk} talk @param {any} event @returns {Talk} */
function ended(talk, event) {
  // A message that was never sent is nothing that was said.
  const messages = talk.messages.filter((each) => !(each.growing && each.turn === event.turn));
  const over = inTurn({ ...talk, messages }, event.turn, { finish: event.finish });
  const waiting = messages.some((each) => each.role === "user" && each.turn === 0 && each.fate !== "failed");
  // Beside which others an answer stands, only the server knows.
  return { ...over, turn: 0, waiting, questions: [], doing: "", branched: false, stale: talk.branched };
}

/** @param {Talk} talk @param {number} number @param {Partial<Turn>} news @returns {Talk} */
function inTurn(talk, number, news) {
  const known = talk.turns[number] ?? { turn: number, finish: "", sources: [], siblings: [] };
  const turn = { ...known, ...news };
  return { ...talk, turns: { ...talk.turns, [number]: turn } };
}

/**
 * @template {{id: string}} T
 * @param {T[]} all
 * @param {string} id
 */
const without = (all, id) => all.filter((each) => each.id !== id);
