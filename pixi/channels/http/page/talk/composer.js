// Where one writes: words, files, and commands that begin with a slash.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { number, size, t } from "../lib/words.js";
import { upload } from "./files.js";

/** @typedef {import("./files.js").Upload} Upload */

/**
 * @param {object} props
 * @param {{files: boolean, characters: number, attachments: number, fileBytes: number}} props.can
 * @param {boolean} props.ready what was said before is there
 * @param {boolean} props.writing a reply is being written
 * @param {{text: string, key: number}} props.draft put into the field whenever its key changes
 * @param {{name: string, about: string}[]} props.commands
 * @param {boolean} props.editing an earlier message is being edited
 * @param {(text: string, files: Upload[]) => Promise<boolean>} props.onSend false: keep what was written
 * @param {() => void} props.onStop
 * @param {() => void} props.onEditLast
 * @param {() => void} props.onCancel of editing
 * @param {(over: boolean) => void} props.onDrag files are held over the page
 */
export function Composer({
  can,
  ready,
  writing,
  draft,
  commands,
  editing,
  onSend,
  onStop,
  onEditLast,
  onCancel,
  onDrag,
}) {
  const [text, setText] = useState("");
  const [uploads, setUploads] = useState(/** @type {Upload[]} */ ([]));
  const [chosen, setChosen] = useState(0);
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));

  useEffect(() => {
    if (!draft.key) return;
    setText(draft.text);
    area.current?.focus();
  }, [draft.key]);
  useEffect(() => {
    // On a touch screen the keyboard would cover half of what was said.
    if (ready && matchMedia("(hover: hover)").matches) area.current?.focus();
  }, [ready]);
  useLayoutEffect(() => {
    if (!area.current) return;
    area.current.style.blockSize = "auto";
    area.current.style.blockSize = `${Math.min(area.current.scrollHeight + 2, 200)}px`;
  }, [text]);

  /** @param {Iterable<File>} files */
  const take = (files) => {
    if (!can.files) return;
    const room = can.attachments - uploads.length;
    const begun = [...files]
      .slice(0, room)
      .map((file) =>
        upload(file, can.fileBytes, (news) =>
          setUploads((all) => all.map((each) => (each.key === news.key ? news : each))),
        ),
      );
    if (begun.length) setUploads((all) => [...all, ...begun]);
    area.current?.focus();
  };
  useEffect(() => {
    /** @param {DragEvent} event */
    const over = (event) => {
      if (!event.dataTransfer?.types.includes("Files") || !can.files) return;
      event.preventDefault();
      onDrag(true);
    };
    /** @param {DragEvent} event */
    const left = (event) => void (event.relatedTarget || onDrag(false));
    /** @param {DragEvent} event */
    const dropped = (event) => {
      onDrag(false);
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      take(event.dataTransfer.files);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", left);
    addEventListener("drop", dropped);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", left);
      removeEventListener("drop", dropped);
    };
  });

  const offered =
    text.startsWith("/") && !text.includes(" ")
      ? commands.filter((each) => `/${each.name}`.startsWith(text.toLowerCase()) && `/${each.name}` !== text)
      : [];
  const sent = uploads.filter((each) => each.id);
  const going = uploads.some((each) => !each.id && !each.trouble);
  const sendable = ready && (text.trim() || sent.length) && !going && text.length <= can.characters;

  const send = async () => {
    if (!sendable) return;
    const said = text.trim();
    const before = { text, uploads };
    setText("");
    setUploads([]);
    if (!(await onSend(said, sent))) {
      setText((now) => now || before.text);
      setUploads((now) => (now.length ? now : before.uploads));
    }
  };
  /** @param {string} name */
  const complete = (name) => {
    setText(`/${name} `);
    setChosen(0);
    area.current?.focus();
  };
  /** @param {KeyboardEvent} event */
  const keyed = (event) => {
    if (event.isComposing) return;
    if (offered.length) {
      const at = Math.min(chosen, offered.length - 1);
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        const step = event.key === "ArrowDown" ? 1 : -1;
        return void setChosen((at + step + offered.length) % offered.length);
      }
      if (event.key === "Tab" || event.key === "Enter") {
        event.preventDefault();
        return complete(/** @type {any} */ (offered[at]).name);
      }
    }
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    } else if (event.key === "ArrowUp" && !text && !editing) {
      event.preventDefault();
      onEditLast();
    } else if (event.key === "Escape" && editing) {
      event.preventDefault();
      setText("");
      onCancel();
    }
  };
  /** @param {any} event */
  const submitted = (event) => {
    event.preventDefault();
    send();
  };
  /** @param {any} event */
  const pasted = (event) => {
    if (!event.clipboardData?.files.length) return;
    event.preventDefault();
    take(event.clipboardData.files);
  };

  return html`<form class="composer" onSubmit=${submitted}>
    ${
      offered.length > 0 &&
      html`<ul id="commands" class="commands" role="listbox" tabindex="0" aria-label=${t("commands.title")}>
        ${offered.map(
          (each, at) =>
            html`<li
              id=${`command-${each.name}`}
              role="option"
              aria-selected=${at === Math.min(chosen, offered.length - 1) ? "true" : "false"}
              onMouseDown=${(/** @type {any} */ event) => {
                event.preventDefault();
                complete(each.name);
              }}
            >
              <code>/${each.name}</code> <span class="soft small">${each.about}</span>
            </li>`,
        )}
      </ul>`
    }
    ${
      editing &&
      html`<p class="editing small">
        ${t("talk.editing")}
        <button
          type="button"
          class="bare small"
          onClick=${() => {
            setText("");
            onCancel();
          }}
        >
          ${t("shared.cancel")}
        </button>
      </p>`
    }
    ${
      uploads.length > 0 &&
      html`<ul class="uploads">
        ${uploads.map(
          (each) =>
            html`<li key=${each.key} class="small">
              ${each.picture && html`<img src=${each.picture} alt="" />`}
              <span class="name" dir="auto">${each.name}</span>
              <span class="soft">${size(each.size)}</span>
              ${!each.id && !each.trouble && html`<progress max="1" value=${each.part} aria-label=${each.name}></progress>`}
              ${each.trouble && html`<span class="bad" role="alert">${each.trouble}</span>`}
              <button
                type="button"
                class="bare"
                aria-label=${t("talk.removeFile", { name: each.name })}
                onClick=${() => {
                  each.cancel();
                  setUploads((all) => all.filter((other) => other.key !== each.key));
                }}
              >
                ✕
              </button>
            </li>`,
        )}
      </ul>`
    }
    <div class="field">
      ${
        can.files &&
        html`<input
            ref=${picker}
            type="file"
            multiple
            hidden
            onChange=${(/** @type {any} */ event) => {
              take(event.target.files);
              event.target.value = "";
            }}
          />
          <button
            type="button"
            class="bare"
            aria-label=${t("talk.attach")}
            onClick=${() => picker.current?.click()}
          >
            <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 5v14M5 12h14" /></svg>
          </button>`
      }
      <textarea
        ref=${area}
        rows="1"
        dir="auto"
        aria-label=${t("talk.message")}
        aria-controls=${offered.length ? "commands" : null}
        aria-activedescendant=${offered.length ? `command-${offered[Math.min(chosen, offered.length - 1)]?.name}` : null}
        placeholder=${t("talk.message")}
        readonly=${!ready}
        value=${text}
        onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)}
        onKeyDown=${keyed}
        onPaste=${pasted}
      ></textarea>
      ${
        writing && !text.trim()
          ? html`<button type="button" class="round quiet" aria-label=${t("talk.stop")} onClick=${onStop}>
              <svg viewBox="0 0 24 24" aria-hidden="true"><path class="solid" d="M8 8h8v8H8z" /></svg>
            </button>`
          : html`<button type="submit" class="round" aria-label=${t("talk.send")} disabled=${!sendable}>
              <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 19V6M6 12l6-6 6 6" /></svg>
            </button>`
      }
    </div>
    ${
      text.length > can.characters &&
      html`<p class="small bad" role="alert">${t("talk.tooLong", { most: number(can.characters) })}</p>`
    }
  </form>`;
}
