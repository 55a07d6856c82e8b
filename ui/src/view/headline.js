import { useRef, useState } from "preact/hooks";
import { TERMINAL, ownDiagnosis, stateOf } from "../derive.js";
import { age, dateTime, plural } from "../format.js";
import { html } from "../html.js";
import { Actions } from "./actions.js";
import { Copy } from "./copy.js";

const SIGNS = { ok: "✓", attention: "!", critical: "✕", underway: "…" };

/** State, name, and one sentence about how the job is. */
export function Headline({ live, picture, now, choose }) {
  const { doc } = picture;
  const { job } = doc;
  const [word, tone] = stateOf(job.state);
  const diagnosis = doc.diagnosis ?? ownDiagnosis(job);
  const known = (uid) => job.chains.some((chain) => chain.uid === uid);
  const first = (diagnosis.reasons ?? []).find((each) => each.sentence === diagnosis.sentence);
  const given = SIGNS[diagnosis.severity] ? diagnosis.severity : "attention";
  const severity = given === "ok" && tone === "busy" ? "underway" : given;
  return html`<header class=${`headline ${severity}`}>
    <div class="title">
      <span class=${`state ${tone}`}>${word}</span>
      <h1>${job.name}<span class="namespace">${job.namespace}</span></h1>
      <${Link} picture=${picture} />
    </div>
    <div class="verdict">
      <span class="sign" aria-hidden="true">${SIGNS[severity]}</span>
      <p class="sentence">${diagnosis.sentence}</p>
      <${Announced} sentence=${diagnosis.sentence} of=${`${job.state} ${severity} ${(diagnosis.reasons ?? []).map((each) => `${each.code} ${each.chain ?? ""}`)}`} />
      ${known(first?.chain) && html`<${ToChain} uid=${first.chain} choose=${choose} />`}
    </div>
    <${Reasons} diagnosis=${diagnosis} known=${known} choose=${choose} />
    ${job.failure && !["RUNNING", "FINISHING"].includes(job.state) && html`<${Failure} text=${job.failure} />`}
    <div class="foot">
      <${Facts} job=${job} now=${now} />
      ${job.sparkPage && !picture.resource && ["live", "polling"].includes(picture.link) && html`<${ToSpark} live=${live} />`}
      ${picture.write && ["live", "polling"].includes(picture.link) && !TERMINAL.has(job.state) && html`<${Actions} live=${live} job=${job} resource=${picture.resource} />`}
    </div>
  </header>`;
}

/** The sentence for those who listen: again only when something other than a figure in it has changed. */
function Announced({ sentence, of }) {
  const last = useRef({ of: "", sentence: "" });
  if (last.current.of !== of) last.current = { of, sentence };
  return html`<p class="offscreen" aria-live="polite">${last.current.sentence}</p>`;
}

function Link({ picture }) {
  const words = { live: "Live", polling: "Every 2 s", away: "No connection", "signed-out": "No session", over: "Ended", opening: "Opening" };
  return html`<span class=${`link ${picture.link}`}>${words[picture.link]}${picture.write ? null : html`<span class="scope">read-only</span>`}</span>`;
}

const ToChain = ({ uid, choose }) => html`<button type="button" class="plain tochain" aria-label=${`Show chain ${uid}`} onClick=${() => choose(uid)}>Show chain</button>`;

function ToSpark({ live }) {
  const [said, setSaid] = useState("");
  return html`<div class="buttons"><button type="button" onClick=${() => live.openSpark(setSaid)}>Spark’s page</button>${said && html`<p class="said bad" role="status">${said}</p>`}</div>`;
}

function Reasons({ diagnosis, known, choose }) {
  const others = (diagnosis.reasons ?? []).filter((each) => each.sentence !== diagnosis.sentence);
  if (!others.length) return null;
  return html`<ul class="reasons">
    ${others.map((each) => html`<li class=${each.severity ?? ""}>${each.sentence} ${known(each.chain) && html`<${ToChain} uid=${each.chain} choose=${choose} />`}</li>`)}
  </ul>`;
}

function Failure({ text }) {
  const [first, ...others] = text.split("\n");
  if (!others.length) return html`<p class="failure"><b>Last failure</b> ${first}</p>`;
  return html`<details class="failure"><summary><b>Last failure</b> ${first}</summary><pre tabindex="0">${text}</pre></details>`;
}

function Facts({ job, now }) {
  const restored = job.restoredFrom;
  const since = job.stateSince ?? null;
  return html`<dl class="facts">
    ${since != null && html`<div><dt>In this state</dt><dd title=${`since ${dateTime(since)}`}>${age(Math.max(0, now - since))}</dd></div>`}
    <div><dt>Up</dt><dd title=${`since ${dateTime(job.startTime)}`}>${age(TERMINAL.has(job.state) ? job.uptime : now - job.startTime)}</dd></div>
    <div><dt>Restarts</dt><dd>${job.restarts}</dd></div>
    ${job.starts > job.restarts + 1 && html`<div><dt>Starts in the last hour</dt><dd>${job.starts}</dd></div>`}
    <div><dt>Attempt</dt><dd>${job.attempt}</dd></div>
    <div><dt>Epoch</dt><dd>${job.epoch ?? "not claimed yet"}</dd></div>
    <div><dt>Restored from</dt><dd title=${restored?.path ?? ""}>${restored ? `${restored.kind} ${restored.id}` : "nothing"}</dd></div>
    ${job.rewriting && html`<div><dt>Rewriting state</dt><dd>${plural(job.rewriting.partitions, "partition")} to ${job.rewriting.maxParallelism}</dd></div>`}
    ${job.migrating && html`<div><dt>Migrating state</dt><dd>${job.migrating.operators.join(", ")}: ${job.migrating.step}${job.migrating.partitions > 0 && `, ${job.migrating.done} of ${plural(job.migrating.partitions, "partition")}`}</dd></div>`}
    ${job.replaying && html`<div><dt>Running again</dt><dd>${job.replaying.done} of ${plural(job.replaying.batches, "published batch", "published batches")}</dd></div>`}
    ${job.location && html`<div class="wide"><dt>Location</dt><dd class="one"><code title=${job.location}>${job.location}</code><${Copy} text=${job.location} what="the location" /></dd></div>`}
  </dl>`;
}
