// OpenAI's own client for JavaScript: node openai.mjs URL
import OpenAI from "openai";
import { follow, parsed } from "./steps.mjs";

const [url] = process.argv.slice(2);
const client = (given) => new OpenAI({ apiKey: "none", maxRetries: 0, ...given });

async function streamed(openai, body, headers = {}) {
  const told = { content: "", finish: null, usage: null, chunks: 0, error: "" };
  try {
    for await (const chunk of await openai.chat.completions.create({ ...body, stream: true }, { headers })) {
      told.chunks += 1;
      told.content += chunk.choices[0]?.delta.content ?? "";
      told.finish = chunk.choices[0]?.finish_reason ?? told.finish;
      told.usage = chunk.usage ?? told.usage;
    }
  } catch (error) {
    told.error = error.message;
  }
  return told;
}

await follow({
  models: async () => (await client({ baseURL: `${url}/v1` }).models.list()).data,
  whole: (body) => client({ baseURL: `${url}/v1` }).chat.completions.create(body),
  stream: ({ headers, ...body }) => streamed(client({ baseURL: `${url}/v1` }), body, headers),
  parse: ({ path }) => parsed(path,
    (fetch) => streamed(client({ baseURL: "http://kept/v1", fetch }), { model: "pixi", messages: [] }),
    (told) => told.finish !== null),
});
