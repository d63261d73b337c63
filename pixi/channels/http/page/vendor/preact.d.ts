// The types of the little that is used of Preact.
export type Node = any;
export const Fragment: any;
export function h(type: any, props: Record<string, unknown> | null, ...children: unknown[]): Node;
export function render(node: Node, parent: Element | ShadowRoot | DocumentFragment): void;
export function createContext<T>(value: T): { Provider: any; Consumer: any; _: T };
