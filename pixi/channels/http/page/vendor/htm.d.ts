// The types of htm.
declare const htm: { bind(h: unknown): (strings: TemplateStringsArray, ...values: unknown[]) => any };
export default htm;
