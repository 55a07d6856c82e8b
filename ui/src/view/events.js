import { useState } from "preact/hooks";
import { ago, clockTime, count, dateTime } from "../format.js";
import { html } from "../html.js";

const PAGE = 40;

/** The events, newest first. */
export function Events({ picture, now }) {
  const { events } = picture;
  const [most, setMost] = useState(PAGE);
  if (events == null) return html`<section class="panel" aria-label="What happened"><h2>What happened</h2><p class="empty">This driver does not offer its history.</p></section>`;
  const runs = folded(events);
  return html`<section class="panel happened" aria-label="What happened">
    <h2>What happened</h2>
    ${runs.length === 0 ? html`<p class="empty">Nothing yet.</p>` : html`<ol class="events" tabindex="0">
      ${runs.slice(0, most).map((run) => (run.length > 1
        ? html`<${Run} key=${`run ${keyOf(run.at(-1))}`} run=${run} now=${now} />`
        : html`<${Event} key=${keyOf(run[0])} event=${run[0]} now=${now} />`))}
    </ol>`}
    ${runs.length > most && html`<button type="button" onClick=${() => setMost(most + 100)}>Show older ones</button>`}
  </section>`;
}

const keyOf = (event) => event.id ?? `${event.at} ${event.sentence}`;

/** Three and more routine events of a kind in a row are one line: what is not routine must be in sight. */
export function folded(events) {
  const runs = [];
  for (const event of events) {
    const run = runs.at(-1);
    if (run && event.weight === "routine" && run[0].weight === "routine" && run[0].kind === event.kind) run.push(event);
    else runs.push([event]);
  }
  return runs.flatMap((run) => (run.length < 3 ? run.map((each) => [each]) : [run]));
}

function Run({ run, now }) {
  const [open, setOpen] = useState(false);
  const [newest, oldest] = [run[0], run.at(-1)];
  if (open) return run.map((event) => html`<${Event} key=${keyOf(event)} event=${event} now=${now} />`);
  return html`<li class="event routine">
    <time datetime=${iso(newest)} title=${dateTime(newest.at)}>${clockTime(newest.at, now)}</time>
    <span class="kind">${newest.kind}</span>
    <div><span class="sentence">${newest.sentence}</span> <button type="button" class="plain" onClick=${() => setOpen(true)}>and ${count(run.length - 1)} before it, since ${clockTime(oldest.at, now)}</button></div>
  </li>`;
}

const iso = (event) => new Date(event.at * 1000).toISOString();

function Event({ event, now }) {
  const details = Object.entries(event.details ?? {}).filter(([, value]) => value != null && value !== "");
  const text = details.map(([name, value]) => (String(value).includes("\n") ? `${name}:\n${value}` : `${name}: ${value}`)).join("\n");
  const head = html`<span class="sentence">${event.sentence}</span>`;
  return html`<li class=${`event ${event.weight ?? "notable"}`}>
    <time datetime=${iso(event)} title=${`${dateTime(event.at)}, ${ago(now - event.at)}`}>${clockTime(event.at, now)}</time>
    <span class="kind">${event.kind}</span>
    ${text.length > 0 ? html`<details><summary>${head}</summary><pre tabindex="0">${text}</pre></details>` : html`<div>${head}</div>`}
  </li>`;
}
