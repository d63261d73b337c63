// Commands of the talk, without a server: its answers and the words of the page are made up here.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { run } from "../../pixi/channels/http/page/talk/commands.js";
import { loadWords } from "../../pixi/channels/http/page/lib/words.js";

/** @type {any} */
let usage = {};

globalThis.fetch = async (address) => {
  const isWords = String(address).startsWith("file:");
  return new Response(isWords ? await readFile(new URL(String(address))) : JSON.stringify(usage));
};
await loadWords("talk", "en");

test("usage tells what was used of each limit", async () => {
  usage = {
    model: "a-model",
    shares: [
      { scope: "person", kind: "messages", used: 3, limit: 50 },
      { scope: "person", kind: "tokens", used: 1200, limit: 9000 },
    ],
  };
  const told = await run("/usage", /** @type {any} */ ({}));
  assert.equal(told, "a-model\n3 of 50 messages today\n1,200 of 9,000 tokens today");
});

test("usage tells where nothing is limited", async () => {
  usage = { shares: [] };
  assert.equal(await run("/usage", /** @type {any} */ ({})), "Nothing is limited.");
});
