// What personas remember of people: where and when it was told, to be searched and forgotten.
import { html, useState } from "../../lib/html.js";
import { remove } from "../../lib/api.js";
import { asProblem, Dialog, Empty, Time, Trouble } from "../../lib/parts.js";
import { ago, t } from "../../lib/words.js";
import {
  asking,
  Chip,
  Choose,
  Lock,
  Pages,
  personPath,
  Search,
  talkPath,
  useFilters,
  usePages,
} from "../listing.js";

const MEMORIES = "/api/studio/memories";

/** @param {{path: string[], query: URLSearchParams}} props */
export default function MemoryScreen({ query }) {
  const [asked, ask] = useFilters(query, ["search", "persona", "person"]);
  const pages = usePages(asking(MEMORIES, asked), "memories");
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const forget = () => {
    const { id } = chosen;
    setChosen(null);
    remove(`${MEMORIES}/${id}`).then(
      () => pages.drop((row) => row.id !== id),
      (error) => setProblem(asProblem(error)),
    );
  };
  const person = asked["person"] ?? "";
  const name = pages.rows.find((row) => row.person === person)?.name;
  /** @type {[string, string][]} */
  const personas = (pages.answer?.personas ?? []).map((/** @type {string} */ each) => [each, each]);
  return html`<div class="sheet">
    <header class="screen-head">
      <h1>${t("memory.title")}</h1>
      <${Search}
        value=${asked["search"] ?? ""}
        label=${t("memory.search")}
        onSearch=${(/** @type {string} */ search) => ask({ search })}
      />
    </header>
    <div class="filters" role="group" aria-label=${t("talks.filters")}>
      <${Choose}
        value=${asked["persona"] ?? ""}
        label=${t("talks.persona")}
        choices=${[["", t("talks.personas")], ...personas]}
        onChoose=${(/** @type {string} */ persona) => ask({ persona })}
      />
      ${person && html`<${Chip} name=${name || person} onDrop=${() => ask({ person: "" })} />`}
    </div>
    <${Trouble} problem=${problem} />
    <${Pages}
      of=${pages}
      label=${t("memory.title")}
      row=${(/** @type {any} */ fact) => html`<${Fact} key=${fact.id} fact=${fact} onForget=${setChosen} />`}
      empty=${html`<${Empty} title=${t("memory.none")}>
        <p>${t(Object.values(asked).some(Boolean) ? "memory.other" : "memory.begin")}</p>
      <//>`}
    />
    ${
      chosen &&
      html`<${Dialog} title=${t("memory.forget_title")} onClose=${() => setChosen(null)}>
        <blockquote dir="auto">${chosen.hidden ? t("memory.hidden") : chosen.text}</blockquote>
        <div class="row">
          <button class="danger" onClick=${forget}>${t("memory.forget")}</button>
          <button class="quiet" onClick=${() => setChosen(null)}>${t("shared.cancel")}</button>
        </div>
      <//>`
    }
  </div>`;
}

/** @param {{fact: any, onForget: (fact: any) => void}} props */
const Fact = ({ fact, onForget }) =>
  html`<li class="line fact">
    <div>
      ${
        fact.hidden
          ? html`<p class="soft"><${Lock} /> ${t("memory.hidden")}</p>`
          : html`<p dir="auto">${fact.text}</p>`
      }
      <p class="soft small facts">
        <a href=${personPath(fact.person)}><bdi>${fact.name || fact.person}</bdi></a>
        <span dir="auto">${fact.persona}</span>
        <a href=${talkPath(fact.conversation)}>${t(`memory.audience.${fact.audience}`)}</a>
        <${Time} at=${fact.told}>${ago(fact.told)}<//>
      </p>
    </div>
    <button class="quiet small" onClick=${() => onForget(fact)}>${t("memory.forget")}</button>
  </li>`;
