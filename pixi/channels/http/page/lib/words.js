// The page's own words, in the reader's language. What people and personas wrote is never translated.

/** The languages there are, each by the tag under which its words lie. */
export const LANGUAGES = ["en", "de", "es", "fr", "ja", "pt-BR", "zh-CN"];

/** @type {Record<string, any>} */
let words = {};
let language = "en";

/**
 * Return the best of our languages for a reader.
 * @param {readonly string[]} wanted tags, the best first
 */
export function bestOf(wanted) {
  for (const tag of wanted) {
    const exact = LANGUAGES.find((each) => each.toLowerCase() === tag.toLowerCase());
    const near = LANGUAGES.find((each) => each.split("-")[0] === tag.toLowerCase().split("-")[0]);
    if (exact ?? near) return exact ?? near ?? "en";
  }
  return "en";
}

/**
 * Load the words of a face of the page: all languages have all of them. English stands in for what cannot be
 * loaded.
 * @param {string} face `talk`, `studio` or `widget`
 * @param {string} [wanted] a tag; without one, as the browser says
 */
export async function loadWords(face, wanted = "") {
  language = bestOf(wanted ? [wanted] : navigator.languages);
  const load = async (/** @type {string} */ tag) => {
    const answer = await fetch(new URL(`../words/${face}/${tag}.json`, import.meta.url));
    return answer.ok ? answer.json() : null;
  };
  words = (await load(language)) ?? (await load("en")) ?? {};
}

/** The tag of the language that is spoken. */
export const spoken = () => language;

/**
 * Return words by their key, such as `live.title`. `{name}` is filled in; where there are `one` and `other`
 * below the key, `count` chooses by the rules of the language.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
  /** @type {any} */
  let found = words;
  for (const part of key.split(".")) found = found?.[part];
  if (typeof found === "object" && found !== null) {
    const rule = new Intl.PluralRules(language).select(Number(values["count"]));
    found = found[rule] ?? found.other;
  }
  if (typeof found !== "string") return key;
  return found.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    return typeof value === "number" ? number(value) : (value ?? whole);
  });
}

/** @param {number} value @param {Intl.NumberFormatOptions} [options] */
export const number = (value, options = {}) => new Intl.NumberFormat(language, options).format(value);

/** A moment, as short as it can be told: the time today, else the day too.
 * @param {number} seconds since the epoch
 */
export function moment(seconds) {
  const at = new Date(seconds * 1000);
  const today = at.toDateString() === new Date().toDateString();
  /** @type {Intl.DateTimeFormatOptions} */
  const day = today ? {} : { day: "numeric", month: "short" };
  return new Intl.DateTimeFormat(language, { ...day, hour: "numeric", minute: "2-digit" }).format(at);
}

/** How long ago, in words.
 * @param {number} seconds since the epoch
 */
export function ago(seconds) {
  const past = seconds - Date.now() / 1000;
  const format = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  /** @type {[Intl.RelativeTimeFormatUnit, number][]} */
  const units = [
    ["day", 86400],
    ["hour", 3600],
    ["minute", 60],
  ];
  for (const [unit, length] of units) {
    if (Math.abs(past) >= length) return format.format(Math.round(past / length), unit);
  }
  return format.format(Math.round(past), "second");
}

/** @param {number} bytes */
export function size(bytes) {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"];
  const step = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), 3);
  return number(bytes / 1000 ** step, { style: "unit", unit: units[step], maximumFractionDigits: step && 1 });
}
