import { useState } from "preact/hooks";
import { age, ago, dateTime } from "../format.js";
import { html } from "../html.js";
import { Copy } from "./copy.js";
import { lifecycleOf } from "./jobs.js";

const SIGNS = { critical: "✕", attention: "!", underway: "…", ok: "✓", still: "–" };

export const Back = () => html`<a class="back" href="../../../../ui/">All jobs</a>`;

/** The controller's view of a job, for as long as its driver has said nothing to this page. */
export function WithoutDriver({ live, picture }) {
  const { resource } = picture;
  const { row } = resource;
  const [word, tone] = lifecycleOf(row.lifecycle);
  return html`<main>
    <header class=${`headline ${row.tone}`}>
      <div class="title"><span class=${`state ${tone}`}>${word}</span><h1>${row.name}<span class="namespace">${row.namespace}</span></h1><span class="link away">${row.driver === "none" ? "No driver" : "Driver away"}</span></div>
      <div class="verdict"><span class="sign" aria-hidden="true">${SIGNS[row.tone] ?? "–"}</span><p class="sentence" aria-live="polite">${row.sentence}</p></div>
      ${resource.failure && html`<details class="failure"><summary><b>Last failure</b> ${resource.failure.split("\n")[0]}</summary><pre tabindex="0">${resource.failure}</pre></details>`}
      <div class="foot"><${Facts} resource=${resource} />${picture.write && html`<${Rest} live=${live} row=${row} />`}</div>
    </header>
    <${Resource} picture=${picture} />
  </main>`;
}

function Facts({ resource }) {
  const { row, now } = resource;
  return html`<dl class="facts">
    ${row.since != null && html`<div><dt>In this state</dt><dd title=${`since ${dateTime(row.since)}`}>${age(Math.max(0, now - row.since))}</dd></div>`}
    <div><dt>Attempt</dt><dd>${resource.attempt}</dd></div>
    <div><dt>Restarts</dt><dd>${row.restarts}</dd></div>
    ${row.parallelism != null && html`<div><dt>Slots</dt><dd>${row.parallelism}</dd></div>`}
    ${resource.nextRestartAt != null && html`<div><dt>Next driver</dt><dd>in ${age(Math.max(0, resource.nextRestartAt - now))}</dd></div>`}
    ${row.checkpointAt != null && html`<div><dt>Last checkpoint</dt><dd>${ago(now - row.checkpointAt)}</dd></div>`}
  </dl>`;
}

/** Suspends a job without a driver that answers, or resumes it. */
function Rest({ live, row }) {
  const [said, setSaid] = useState(null);
  const say = (words, bad = false) => setSaid({ words, bad });
  const change = () => live.change("v1/suspend", { suspend: !row.suspended }, say);
  return html`<div class="actions"><div class="buttons"><button type="button" onClick=${change}>${row.suspended ? "Resume" : "Suspend"}</button></div>
    <p class=${`said ${said?.bad ? "bad" : ""}`} role="status">${said?.words}</p></div>`;
}

/** The StreamJob's conditions, and what survives its driver. */
export function Resource({ picture }) {
  const { resource } = picture;
  const { row, now } = resource;
  return html`<section class="panel" aria-label="In Kubernetes">
    <div class="bar"><h2>In Kubernetes</h2><${Back} /></div>
    <dl class="facts">
      ${row.revision && html`<div><dt>Revision</dt><dd>${row.revision}</dd></div>`}
      ${resource.pendingRevision && html`<div class="waiting"><dt>Next revision</dt><dd>${resource.pendingRevision}</dd></div>`}
      ${row.upgrade && html`<div class="waiting"><dt>Under way</dt><dd>${row.upgrade}</dd></div>`}
      ${resource.scaling && html`<div class="wide"><dt>Automatic scaling</dt><dd>${resource.scaling}</dd></div>`}
      ${resource.checkpointPath && html`<${Path} name="Last checkpoint" path=${resource.checkpointPath} />`}
      ${resource.savepointPath && html`<${Path} name=${`Last savepoint${resource.savepointAt != null ? `, ${ago(now - resource.savepointAt)}` : ""}`} path=${resource.savepointPath} />`}
    </dl>
    <div class="scroll" tabindex="0" role="region" aria-label="Conditions"><table class="conditions">
      <thead><tr><th scope="col">Condition</th><th scope="col">Status</th><th scope="col">Reason</th><th scope="col">For</th></tr></thead>
      <tbody>${resource.conditions.map((condition) => html`<tr key=${condition.type} class=${condition.wrong ? "wrong" : ""}>
        <th scope="row">${condition.type}</th><td>${condition.status}</td>
        <td>${condition.reason}${condition.message && html`<span class="said">${condition.message}</span>`}</td>
        <td>${condition.since != null && condition.since > 0 ? age(Math.max(0, now - condition.since)) : ""}</td></tr>`)}</tbody>
    </table></div>
  </section>`;
}

const Path = ({ name, path }) => html`<div class="wide"><dt>${name}</dt><dd class="one"><code title=${path}>${path}</code><${Copy} text=${path} what=${name} /></dd></div>`;
