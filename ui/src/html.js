import htm from "htm";
import { h } from "preact";

/** JSX without a compiler. All values become text or attributes, never markup. */
export const html = htm.bind(h);
