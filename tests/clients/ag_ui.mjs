// AG-UI's own client, whose checks of the order of events are strict: node ag_ui.mjs URL
import { HttpAgent } from "@ag-ui/client";
import { follow, parsed } from "./steps.mjs";

const [url] = process.argv.slice(2);
const warned = []; // what it strips, as it does not know it
console.warn = (...words) => void warned.push(words.map(String).join(" "));

class Agent {
  constructor(threadId, address, fetch) {
    this.events = [];
    this.failed = "";
    this.agent = new HttpAgent({ url: address, threadId, fetch });
    this.agent.subscribe({ onEvent: ({ event }) => void this.events.push(event) });
  }
  async run(given = {}) {
    this.events = [];
    this.failed = "";
    try {
      await this.agent.runAgent(given);
    } catch (error) {
      this.failed = String(error?.message ?? error);
    }
  }
  told() {
    const { messages, pendingInterrupts } = this.agent;
    return { messages, pendingInterrupts, events: this.events, failed: this.failed, warned };
  }
}

const agents = new Map();
const running = new Map(); // runs under way, by thread
const agent = (thread) => {
  if (!agents.has(thread)) agents.set(thread, new Agent(thread, `${url}/api/agui`));
  return agents.get(thread);
};
const isWhole = (told) => told.events.some((event) => event.type === "RUN_FINISHED");

await follow({
  // Goes on until `settle`.
  send: ({ thread, id, text, ...given }) => {
    if (text !== undefined) agent(thread).agent.addMessage({ id, role: "user", content: text });
    running.set(thread, agent(thread).run(given));
  },
  set: ({ thread, messages }) => agent(thread).agent.setMessages(messages),
  stop: ({ thread }) => agent(thread).agent.abortRun(),
  settle: async ({ thread }) => {
    await running.get(thread);
    return agent(thread).told();
  },
  peek: ({ thread }) => agent(thread).told(),
  parse: ({ path }) => parsed(path, async (fetch) => {
    const one = new Agent("kept", "http://kept/api/agui", fetch);
    await one.run({ runId: "run" });
    return one.told();
  }, isWhole),
});
