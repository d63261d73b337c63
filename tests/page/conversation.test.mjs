// The state of a talk from events: cut at each of them, told twice, lost and taken up again.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

// As text: nothing says of a file of the page that it is a module, but the page.
const source = readFileSync(
  new URL("../../pixi/channels/http/page/talk/conversation.js", import.meta.url),
  "utf-8",
);
const talk = await import(`data:text/javascript,${encodeURIComponent(source)}`);

const CARD = { type: "spot_card", version: 1, data: { name: "Bowl" }, fallback: { title: "Bowl" } };
const ASKED = { id: "q1", tool: "empty", does: "Empty a bin", arguments: "{}", expires: 9 };
const PAGES = [{ title: "Tides", url: "https://example.org/" }];

/** Two turns, with all that is drawn; each with what a person says before. */
const TURNS = [
  [
    { event: "said", id: "a", text: "hi", at: 5, attachments: ["note.txt"] },
    { event: "turn_start", turn: 1, answers: ["a"] },
    { event: "react", turn: 1, id: "1.0", emoji: "🥞", message: "a" },
    { event: "started", turn: 1, id: "1.1", name: "send" },
    { event: "text", turn: 1, id: "1.1", name: "send", text: " hello " },
    { event: "text", turn: 1, id: "1.1", name: "send", text: "you" },
    { event: "send", turn: 1, id: "1.1", text: "hello you" },
    { event: "card", turn: 1, id: "1.2", ...CARD },
    { event: "progress", turn: 1, text: "looking" },
    { event: "started", turn: 1, id: "1.3", name: "send" },
    { event: "text", turn: 1, id: "1.3", name: "send", text: "two" },
    { event: "send", turn: 1, id: "1.3", text: "two" },
    { event: "sources", turn: 1, sources: PAGES },
    { event: "turn_end", turn: 1, finish: "stop" },
  ],
  [
    { event: "said", id: "b", text: "and?", at: 6, attachments: [] },
    { event: "turn_start", turn: 2, answers: ["b"] },
    { event: "approval", turn: 2, ...ASKED },
    { event: "approved", turn: 2, id: "q1", verdict: "yes" },
    { event: "react", turn: 2, id: "2.0", emoji: "🛹", message: "1.1" },
    { event: "picture", turn: 2, id: "2.1", text: "a cat", link: "https://example.org/c", service: "" },
    { event: "started", turn: 2, id: "2.2", name: "send" },
    { event: "text", turn: 2, id: "2.2", name: "send", text: "never sent" },
    { event: "turn_end", turn: 2, finish: "cancelled" },
  ],
];
const ALL = TURNS.flat();
const begun = () => ({ ...talk.EMPTY, loaded: true });
/** @param {any} state @param {any[]} events */
const after = (state, events) => events.reduce((now, each) => talk.heard(now, each), state);
const WHOLE = after(begun(), ALL);

/** What `GET …/messages` answers when so many events have been: what was delivered, and no piece of a message. */
function history(/** @type {any[]} */ events) {
  const now = after(begun(), events);
  const messages = now.messages.filter((/** @type {any} */ each) => !each.growing);
  const turns = Object.values(now.turns);
  const { turn: underWay, waiting } = now;
  const told = structuredClone({ messages, turns, underWay, waiting });
  return { persona: "", more: false, reactions: [], ...told };
}

/** What is drawn of a talk. */
const drawn = (/** @type {any} */ state) => ({
  messages: state.messages,
  turn: state.turn,
  waiting: state.waiting,
  questions: state.questions,
  turns: state.turns,
});

test("all of it is there, once and in order", () => {
  assert.deepEqual(
    WHOLE.messages.map((each) => each.id),
    ["a", "1.1", "1.2", "1.3", "b", "2.1"],
  );
  assert.deepEqual(
    WHOLE.messages.map((each) => each.text),
    ["hi", "hello you", "", "two", "and?", ""],
  );
  assert.deepEqual(
    WHOLE.messages.map((each) => each.reactions.map((on) => on.emoji).join("")),
    ["🥞", "🛹", "", "", "", ""],
  );
  assert.equal(WHOLE.messages[2].cards[0].fallback.title, "Bowl");
  assert.equal(WHOLE.messages[5].picture.text, "a cat");
  assert.deepEqual(WHOLE.turns[1].sources, PAGES);
  assert.deepEqual([WHOLE.turns[1].finish, WHOLE.turns[2].finish], ["stop", "cancelled"]);
  assert.deepEqual([WHOLE.turn, WHOLE.waiting, WHOLE.questions], [0, false, []]);
});

test("a message grows, and waits for nobody else", () => {
  const half = after(begun(), ALL.slice(0, 5));
  assert.deepEqual([half.turn, half.waiting], [1, true]);
  assert.deepEqual([half.messages.at(-1).text, half.messages.at(-1).growing], ["hello ", true]);
  assert.equal(after(half, ALL.slice(5, 7)).messages.at(-1).growing, false);
  assert.equal(after(begun(), ALL.slice(0, 17)).questions.length, 1);
});

for (let cut = 0; cut <= ALL.length; cut += 1) {
  test(`loaded anew after ${cut} events, the turn told from its beginning`, () => {
    const loaded = talk.loaded(talk.EMPTY, history(ALL.slice(0, cut)));
    const turn = loaded.turn ? ALL.findIndex((each) => each.turn === loaded.turn) : cut;
    assert.deepEqual(drawn(after(loaded, ALL.slice(turn))), drawn(WHOLE));
  });

  test(`loaded anew over what was shown after ${cut} events`, () => {
    const shown = after(begun(), ALL.slice(0, Math.max(cut - 3, 0)));
    const loaded = talk.loaded(shown, history(ALL.slice(0, cut)));
    const turn = loaded.turn ? ALL.findIndex((each) => each.turn === loaded.turn) : cut;
    assert.deepEqual(drawn(after(loaded, ALL.slice(turn))), drawn(WHOLE));
  });
}

test("no event changes the state that it is told to", () => {
  let now = begun();
  for (const event of ALL) {
    const before = structuredClone(now);
    const next = talk.heard(now, event);
    assert.deepEqual(now, before);
    now = next;
  }
});

const ENTERED = { id: "own", text: "hi", attachments: [], at: 5 };

test("what was entered stands once, whichever comes first: the answer or the event", () => {
  const [said] = ALL;
  for (const steps of [
    [(now) => talk.accepted(now, "own", "a"), (now) => talk.heard(now, said)],
    [(now) => talk.heard(now, said), (now) => talk.accepted(now, "own", "a")],
  ]) {
    const now = steps.reduce((state, step) => step(state), talk.entered(begun(), ENTERED));
    assert.deepEqual(
      now.messages.map((each) => [each.id, each.fate]),
      [["a", ""]],
    );
  }
});

test("what seemed lost and came all the same stands once", () => {
  const lost = talk.refused(talk.entered(begun(), ENTERED), "own", "");
  assert.deepEqual([lost.messages[0].fate, lost.waiting], ["failed", false]);
  assert.deepEqual(
    talk.heard(lost, ALL[0]).messages.map((each) => [each.id, each.fate]),
    [["a", ""]],
  );
  assert.deepEqual(
    talk.loaded(lost, history(ALL.slice(0, 1))).messages.map((each) => each.id),
    ["a"],
  );
});

test("what is not there stays when all is loaded, though the same was said before", () => {
  const before = after(begun(), TURNS[0]);
  const lost = talk.refused(talk.entered(before, ENTERED), "own", "full");
  const loaded = talk.loaded(lost, history(TURNS[0]));
  assert.deepEqual([loaded.messages.at(-1).id, loaded.messages.at(-1).why], ["own", "full"]);
  assert.equal(talk.dropped(loaded, "own").messages.length, before.messages.length);
});

test("what is sent once more stands at the end", () => {
  const lost = after(talk.refused(talk.entered(begun(), { ...ENTERED, text: "x" }), "own", ""), TURNS[0]);
  assert.equal(lost.messages[0].id, "own");
  const again = talk.retried(lost, "own");
  assert.deepEqual([again.messages.at(-1).id, again.messages.at(-1).fate], ["own", "sending"]);
  assert.equal(again.waiting, true);
  assert.equal(talk.retried(lost, "nothing"), lost);
});

test("an earlier page comes before, and its reactions land", () => {
  const [first, second] = TURNS;
  const late = { ...history(second), reactions: [second[4]], more: true };
  const later = talk.loaded(talk.EMPTY, late);
  assert.equal(talk.firstTurn(later), 2);
  const whole = talk.earlier(later, history(first));
  assert.deepEqual(whole.messages, WHOLE.messages);
  assert.deepEqual([whole.more, talk.firstTurn(whole)], [false, 1]);
  assert.deepEqual(talk.earlier(whole, history(first)).messages, WHOLE.messages, "twice is once");
});

test("another branch is read anew when its answer is there", () => {
  const changed = talk.heard(WHOLE, { event: "changed" });
  assert.equal(changed.stale, true);
  const loaded = talk.loaded(changed, history(ALL.slice(0, 15)));
  assert.deepEqual([loaded.stale, loaded.branched], [false, true]);
  const ended = after(loaded, TURNS[1].slice(1));
  assert.deepEqual([ended.stale, ended.branched], [true, false]);
});
