// A stream of the studio, for as long as a screen looks on.
import { eventsIn, Problem, request } from "../lib/api.js";

/**
 * Follow a stream of events for as long as `signal` lets it; a connection that is lost is made again, after
 * 1, 2, 4 … 15 seconds.
 * @param {string} path
 * @param {(data: any, id: string) => void} heard
 * @param {AbortSignal} signal
 * @param {(state: "open" | "lost" | "refused", problem?: Problem) => void} [told] hears of the connection
 */
export async function follow(path, heard, signal, told = () => {}) {
  let wait = 1;
  while (!signal.aborted) {
    try {
      const answer = await request("GET", path, { signal, headers: { Accept: "text/event-stream" } });
      told("open");
      wait = 1;
      for await (const event of eventsIn(answer)) heard(event.data, event.id);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429) {
        told("refused", error);
        return;
      }
    }
    if (signal.aborted) return;
    told("lost");
    await new Promise((done) => setTimeout(done, wait * 1000));
    wait = Math.min(wait * 2, 15);
  }
}
