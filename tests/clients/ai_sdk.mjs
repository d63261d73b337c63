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
    const ids = (count) => () => `${id}-${++count.now}`;
    super({
      id,
      state,
      generateId: ids({ now: 0 }),
      transport: new DefaultChatTransport(transport),
      sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
      onData: (part) => this.data.push(part),
      onFinish: (finish) => { this.finish = finish; },
    });
    this.data = [];
    this.kept = state;
  }
  told() {
    const { messages, statuses, error } = this.kept;
    return { messages, statuses, error: error?.message ?? "", data: this.data };
  }
}

const protocol = version === "ai5" ? "ai-sdk" : "ai-sdk-6";
const chats = new Map();
const running = new Map(); // requests under way, by chat
const chat = (id) => {
  const query = () => `?protocol=${protocol}`;
  if (!chats.has(id)) {
    chats.set(id, new Chat(id, {
      api: `${url}/api/chat`,
      prepareReconnectToStreamRequest: ({ id }) => ({ api: `${url}/api/chat/${id}/stream${query()}` }),
      prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => ({
        api: `${url}/api/chat${query()}`,
        body: { ...body, id, messages, trigger, messageId },
      }),
    }));
  }
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
  // Another window of the same talk: it knows what the other one showed, and follows by itself.
  reload: ({ chat: id }) => {
    const messages = chats.get(id).messages;
    chats.delete(id);
    chat(id).messages = messages.filter((each) => each.role === "user");
  },
  settle: async ({ chat: id }) => {
    await running.get(id);
    return chat(id).told();
  },
  peek: ({ chat: id }) => chat(id).told(),
  parse: ({ path }) => parsed(path, async (fetch) => {
    const one = new Chat("kept", { api: "http://kept/api/chat", fetch });
    await one.sendMessage({ text: "hi" });
    return one.told();
  }, isWhole),
});
