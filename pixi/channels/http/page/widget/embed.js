// The talk in a frame: the widget fills it. The page around it was told to the browser, see /embed/PERSONA.
import "./widget.js";

const chat = document.createElement("pixi-chat");
const asked = new URLSearchParams(location.search);
chat.setAttribute("inline", "");
chat.setAttribute("key", asked.get("key") ?? "");
chat.setAttribute("persona", decodeURIComponent(location.pathname.split("/").at(-1) ?? ""));
for (const name of ["lang", "theme", "dir"]) {
  const value = asked.get(name);
  if (value) chat.setAttribute(name, value);
}
document.body.append(chat);
