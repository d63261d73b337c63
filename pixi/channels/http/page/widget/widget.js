// <pixi-chat>: a talk with a persona in other people's pages. Everything stands in a shadow tree with styles of
// its own, which come as style sheets that are made by script: a page's content security policy need allow no
// inline style. It names this server under script-src, connect-src and img-src.
import { asProblem } from "../lib/parts.js";
