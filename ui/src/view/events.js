import { useState } from "preact/hooks";
import { ago, clockTime, dateTime } from "../format.js";
import { html } from "../html.js";

const PAGE = 40;

/** What happened, newest first. */
export function Events({ picture, now }) {
  const { events } = picture;
  const [only, setOnly] = useState(false);
  const [most, setMost] = useState(PAGE);
  if (events === null) return html`<section class="panel" aria-label="What happened"><h2>What happened</h2><p class="empty">This driver does not offer its history.</p></section>`;
  const chosen = only ? events.filter((each) => each.weight !== "routine") : events;
  return html`<section class="panel happened" aria-label="What happened">
    <div class="bar"><h2>What happened</h2><label class="only"><input type="checkbox" checked=${only} onChange=${(event) => setOnly(event.target.checked)} /> without routine</label></div>
    ${chosen.length === 0 ? html`<p class="empty">${events.length ? "Nothing out of the ordinary." : "Nothing yet."}</p>` : html`<ol class="events">
      ${chosen.slice(0, most).map((event) => html`<${Event} key=${event.id ?? `${event.at} ${event.sentence}`} event=${event} now=${now} />`)}
    </ol>`}
    ${chosen.length > most && html`<button type="button" onClick=${() => setMost(most + 100)}>Show older ones</button>`}
  </section>`;
}

function Event({ event, now }) {
  const details = Object.entries(event.details ?? {}).filter(([, value]) => value !== null && value !== "");
  const text = details.map(([name, value]) => (String(value).includes("\n") ? `${name}:\n${value}` : `${name}: ${value}`)).join("\n");
  const head = html`<span class="sentence">${event.sentence}</span>`;
  return html`<li class=${`event ${event.weight ?? "notable"}`}>
    <time datetime=${new Date(event.at * 1000).toISOString()} title=${`${dateTime(event.at)}, ${ago(now - event.at)}`}>${clockTime(event.at, now)}</time>
    <span class="kind">${event.kind}</span>
    ${text.length > 0 ? html`<details><summary>${head}</summary><pre tabindex="0">${text}</pre></details>` : html`<div>${head}</div>`}
  </li>`;
}
