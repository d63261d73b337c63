// The talk.
import { loadWords } from "../lib/words.js";

await loadWords("talk");
