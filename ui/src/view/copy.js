import { useState } from "preact/hooks";
import { html } from "../html.js";

/** A button that copies a text. */
export function Copy({ text, what, label = "Copy" }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    setDone((await write(text)) ? "Copied" : "Select it");
    setTimeout(() => setDone(""), 1500);
  };
  return html`<button type="button" class="plain copy" onClick=${copy} aria-label=${`${done || label} ${what}`}>${done || label}</button>`;
}

async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages by plain HTTP from another host have no clipboard of the new kind.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
