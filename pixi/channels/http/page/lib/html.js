// Preact with htm for templates: everything that draws imports from here.
import htm from "../vendor/htm.js";
import { h } from "../vendor/preact.js";

export { createContext, Fragment, h, render } from "../vendor/preact.js";
export {
  useCallback,
  useContext,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "../vendor/hooks.js";

/**
 * Build a node from a template: html`<p class="note">${text}</p>`. Text is always put in as text.
 * @type {(strings: TemplateStringsArray, ...values: unknown[]) => any}
 */
export const html = /** @type {any} */ (htm.bind(h));
