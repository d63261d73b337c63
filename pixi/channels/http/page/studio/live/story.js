// What is known of the turns of a talk, put together from the events that tell of them.

/**
 * @typedef {{number: number, name: string, from: number, to: number | null, complete: boolean, fresh: boolean}} Command
 *   a command in the raw text: `to` is null while it is open; `fresh`: it closed while somebody looked on
 * @typedef {{step: number, text: string, thoughts: string, commands: Command[], tools: string[],
 *   model: string, finish: string, failed: boolean, usage: Usage | null, thrown: string}} Step
 *   a request to the model; `thrown` says why what it brought was thrown away
 * @typedef {{prompt_tokens: number, cached_tokens: number, completion_tokens: number}} Usage
 * @typedef {{type: "act", key: string, number: number | null, act: string, text: string, outcome: string, ms: number | null}} Act
 * @typedef {{type: "tool", key: string, id: string, name: string, arguments: any, ok: boolean | null, result: any, ms: number | null, progress: string}} ToolRun
 * @typedef {{type: "word", key: string, word: string, text: string, pages: {title: string, url: string}[]}} Word
 *   anything else that is told, e.g. `error`, `approval`, `sources`, `state`
 * @typedef {{turn: number, conversation: string, persona: string, model: string, began: number, hidden: boolean,
 *   answers: {id: string, author: string, text: string}[], steps: Step[], effects: (Act | ToolRun | Word)[],
 *   reading: {done: number, total: number} | null, end: any}} Turn
 */

/** Seconds for which a command that closed is lit, also on a page that was opened just then. */
const LIT = 1.5;

/** How many turns stay on the screen. */
const MOST_TURNS = 20;

/** @param {any} event @returns {Turn} */
const newTurn = (event) => ({
  turn: event.turn,
  conversation: event.conversation,
  persona: event.persona,
  model: event.model ?? "",
  began: event.began ?? 0,
  hidden: Boolean(event.hidden),
  answers: event.answers ?? [],
  steps: [],
  effects: [],
  reading: null,
  end: null,
});

/** @param {Turn} turn @param {any} event @returns {Step} the request that an event belongs to */
function stepOf(turn, event) {
  const last = turn.steps.find((each) => each.step === event.step);
  if (last) return last;
  const step = {
    step: event.step,
    text: "",
    thoughts: "",
    commands: [],
    tools: [],
    model: "",
    finish: "",
    failed: false,
    usage: null,
    thrown: "",
  };
  turn.steps.push(step);
  return step;
}

/**
 * Add an event to the turns of a talk; they are changed in place, the one that changed gets a new identity.
 * @param {Turn[]} turns oldest first
 * @param {any} event
 * @param {boolean} fresh whether it happened just now
 * @returns {Turn[]}
 */
export function told(turns, event, fresh) {
  if (event.event === "forgotten") return turns.filter((each) => each.conversation !== event.conversation);
  const at = turns.findIndex((each) => each.turn === event.turn && each.conversation === event.conversation);
  const known = turns[at];
  if (event.event === "turn_start" || !known) {
    const begun = newTurn(event);
    if (event.event !== "turn_start") apply(begun, event, fresh);
    const others = turns.filter((each) => each !== known);
    return [...others, begun].slice(-MOST_TURNS);
  }
  const changed = { ...known };
  apply(changed, event, fresh);
  return turns.map((each) => (each === known ? changed : each));
}

/** @param {Turn} turn @param {any} event @param {boolean} fresh */
function apply(turn, event, fresh) {
  switch (event.event) {
    case "asked":
      stepOf(turn, event).tools = event.tools;
      turn.reading = null;
      break;
    case "reading":
      turn.reading = { done: event.done, total: event.total };
      break;
    case "text": {
      const step = stepOf(turn, event);
      step.text = step.text.slice(0, indexAt(step.text, event.offset)) + event.text;
      turn.reading = null;
      break;
    }
    case "thought":
      stepOf(turn, event).thoughts += event.text;
      break;
    case "open": {
      const { number, name, offset } = event;
      stepOf(turn, event).commands.push({ number, name, from: offset, to: null, complete: false, fresh });
      break;
    }
    case "close": {
      const command = stepOf(turn, event).commands.find((each) => each.number === event.number);
      const lit = fresh || Math.abs(Date.now() / 1000 - turn.began - event.at) < LIT;
      if (command) Object.assign(command, { to: event.offset, complete: event.complete, fresh: lit });
      break;
    }
    case "answered": {
      const { model, finish, failed, usage } = event;
      Object.assign(stepOf(turn, event), { model, finish, failed, usage });
      break;
    }
    case "thrown_away":
      stepOf(turn, event).thrown = event.why;
      break;
    case "turn_end":
      turn.end = event;
      turn.reading = null;
      break;
    default:
      turn.effects = happened(turn.effects, event);
  }
}

/** @param {Turn["effects"]} effects @param {any} event @returns {Turn["effects"]} */
function happened(effects, event) {
  const key = `${effects.length}`;
  switch (event.event) {
    case "effect": {
      const { number, act, text, outcome, ms } = event;
      return [...effects, { type: "act", key, number, act, text, outcome, ms }];
    }
    case "tool_call": {
      const { id, name } = event;
      const run = { id, name, arguments: event.arguments, ok: null, result: null, ms: null, progress: "" };
      return [...effects, { type: "tool", key, ...run }];
    }
    case "tool_result":
      return effects.map((each) =>
        each.type === "tool" && each.id === event.id && each.ok === null
          ? { ...each, ok: event.ok, result: event.result, ms: event.ms }
          : each,
      );
    case "progress": {
      const running = effects.findLast((each) => each.type === "tool" && each.ok === null);
      return effects.map((each) => (each === running ? { ...each, progress: event.text } : each));
    }
    case "error":
    case "approval":
    case "approved":
    case "sources":
    case "state": {
      const text = event.text ?? event.does ?? event.verdict ?? event.state ?? "";
      return [...effects, { type: "word", key, word: event.event, text, pages: event.sources ?? [] }];
    }
    default:
      return effects;
  }
}

const PAIR = /[\ud800-\udbff][\udc00-\udfff]/g;

/**
 * Where in a text a character stands. The server counts characters; here those beyond the first plane, such
 * as most emoji, count twice.
 * @param {string} text
 * @param {number} characters before it
 */
function indexAt(text, characters) {
  let index = characters;
  for (const pair of text.matchAll(PAIR)) {
    if (pair.index >= index) break;
    index += 1;
  }
  return index;
}

/**
 * Cut a text into stretches: those of commands, and those between them.
 * @param {Step} step
 * @returns {{text: string, command: Command | null}[]}
 */
export function stretches(step) {
  const found = [];
  let at = 0;
  for (const command of [...step.commands].sort((one, other) => one.from - other.from)) {
    const from = Math.max(indexAt(step.text, command.from), at);
    const to = command.to === null ? step.text.length : indexAt(step.text, command.to);
    if (from > at) found.push({ text: step.text.slice(at, from), command: null });
    if (to > from) found.push({ text: step.text.slice(from, to), command });
    at = Math.max(at, to);
  }
  if (at < step.text.length) found.push({ text: step.text.slice(at), command: null });
  return found;
}

/** How a command looks: those that the language has have a colour of their own. @param {string} name */
export const lookOf = (name) => (["send", "react", "note"].includes(name) ? name : "other");

/** What all requests of a turn used until now. @param {Turn} turn @returns {Usage} */
export function usedBy(turn) {
  const none = { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 };
  if (turn.end) return turn.end.usage;
  return turn.steps.reduce(
    (sum, { usage }) => ({
      prompt_tokens: sum.prompt_tokens + (usage?.prompt_tokens ?? 0),
      cached_tokens: sum.cached_tokens + (usage?.cached_tokens ?? 0),
      completion_tokens: sum.completion_tokens + (usage?.completion_tokens ?? 0),
    }),
    none,
  );
}
