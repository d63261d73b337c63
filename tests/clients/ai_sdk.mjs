// AI SDK's chat, as a page uses it: node ai_sdk.mjs ai5 URL
import { follow, parsed } from "./steps.mjs";

const [version, url] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport, ...ai } = await import(version);

// What useChat keeps in React, kept plainly.
class State {
  messages = [];
  error = undefined;
  statuses = [];
  set status(status) { this.statuses.push(status); }
  get status() { return this.statuses.at(-1) ?? "ready"; }
  pushMessage = (message) => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (at, message) => { this.messages = this.messages.with(at, structuredClone(message)); };
  snapshot = (thing) => structuredClone(thing);
}

class Chat extends AbstractChat {
  constructor(id, transport) {
    const state = new State();
    let made = 0;
    super({
      id,
      state,
      generateId: () => `${id}-${++made}`,
      transport: new DefaultChatTransport(transport),
      sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
      onData: (part) => this.data.push(part),
      onFinish: (finish) => { this.finish = finish; },
    });
    this.data = [];
    this.kept = state;
  }
  // What is sent by itself, once questions are answered, nobody else waits for.
  async idle() {
    while (["submitted", "streaming"].includes(this.status)) await new Promise((done) => setTimeout(done, 1));
  }
  told() {
    const { messages, statuses, error } = this.kept;
    return { messages, statuses, error: error?.message ?? "", data: this.data };
  }
}

const chats = new Map();
const running = new Map(); // requests under way, by chat
const headers = version === "ai5" ? {} : { "X-Pixi-Protocol": "ai-sdk-6" };
const chat = (id) => {
  if (!chats.has(id)) chats.set(id, new Chat(id, { api: `${url}/api/chat`, headers }));
  return chats.get(id);
};

// A finished stream ends with the persona's own word for it, see `finish` in the metadata.
const isWhole = (told) => told.messages.at(-1)?.metadata?.finish !== undefined;

await follow({
  // Each of these goes on until `settle`.
  send: ({ chat: id, ...message }) => void running.set(id, chat(id).sendMessage(message)),
  regenerate: ({ chat: id, ...which }) => void running.set(id, chat(id).regenerate(which)),
  resume: ({ chat: id }) => void running.set(id, chat(id).resumeStream()),
  approve: async ({ chat: id, ...answer }) => { await chat(id).addToolApprovalResponse(answer); },
  // Leaves the stream, which ends no turn.
  stop: ({ chat: id }) => chat(id).stop(),
  // The page is loaded anew, with those messages that are whole.
  reload: ({ chat: id, messages }) => {
    chats.delete(id);
    chat(id).messages = messages;
  },
  settle: async ({ chat: id }) => {
    await running.get(id);
    await chat(id).idle();
    return chat(id).told();
  },
  peek: ({ chat: id }) => chat(id).told(),
  parse: ({ path }) => parsed(path, async (fetch) => {
    const one = new Chat("kept", { api: "http://kept/api/chat", fetch });
    await one.sendMessage({ text: "hi" });
    return one.told();
  }, isWhole),
});
