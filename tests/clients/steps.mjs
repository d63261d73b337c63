// Does what is written on standard input: a step a line, as JSON; each is answered with a line of JSON.
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";

// Standard output belongs to the answers; and of a stream that is cut at each byte, clients have much to say.
console.log = console.warn = console.error = () => {};

export async function follow(steps) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: name, ...given } = JSON.parse(line);
    let answer;
    try {
      answer = await steps[name](given);
    } catch (error) {
      answer = { thrown: String(error?.message ?? error) };
    }
    process.stdout.write(JSON.stringify(answer ?? null) + "\n");
  }
}

/** A `fetch` that answers with the first bytes of a file, as they would come over a line that then breaks off. */
export function fetching(path, bytes = Infinity) {
  const body = readFileSync(path).subarray(0, bytes);
  return async () => new Response(body, { headers: { "Content-Type": "text/event-stream" } });
}

/** What a client makes of a recorded stream, and after how many bytes it first takes it for a whole one. */
export async function parsed(path, parse, isWhole) {
  const size = readFileSync(path).length;
  let whole = 0;
  while (whole <= size && !isWhole(await parse(fetching(path, whole)))) whole += 1;
  return { size, whole, told: await parse(fetching(path)) };
}
