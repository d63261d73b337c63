import { html } from "../../lib/html.js";
import { Empty } from "../../lib/parts.js";
import { t } from "../../lib/words.js";

export default function DatabasesScreen() {
  return html`<${Empty} title=${t("nav.databases")} />`;
}
