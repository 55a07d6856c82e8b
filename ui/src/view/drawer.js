import { useEffect, useRef } from "preact/hooks";
import { partsOf, sourcesOf, waits } from "../derive.js";
import { ABSENT, age, clockTime, compact, count, duration, eventTime, ms, percent, plural, rate, size, unread, watermarkLag } from "../format.js";
import { html } from "../html.js";
import { busyOf } from "./graph.js";
import { Sparkline } from "./spark.js";

/** Seconds after which a running batch is mentioned, as in the line of progress. */
const LONG_BATCH = 10;

/** All that is known of one chain. */
export function Drawer({ chain, picture, now, close }) {
  const heading = useRef(null);
  useEffect(() => heading.current.focus(), []);
  useEffect(() => {
    const escape = (event) => event.key === "Escape" && !document.querySelector("dialog[open]") && close();
    addEventListener("keydown", escape);
    return () => removeEventListener("keydown", escape);
  }, [close]);
  const { doc, points } = picture;
  const of = (name) => points.map((point) => ({ at: point.at, value: point.chains?.[chain.uid]?.[name] ?? null }));
  const since = clockTime(doc.job.startTime, now);
  const late = Object.entries(chain.recordsDroppedLate ?? {});
  return html`<aside class="drawer" aria-labelledby="drawer-title">
    <div class="bar"><h2 id="drawer-title" ref=${heading} tabindex="-1">Chain ${chain.uid}</h2><button type="button" onClick=${close}>Close</button></div>
    <dl class="facts">
      <div><dt>Busy</dt><dd>${chain.finished ? "finished" : percent(busyOf(doc, chain))}</dd></div>
      <div class=${waits(chain) ? "waiting" : ""}><dt>Waits for readers</dt><dd>${percent(chain.backpressured)}, ${duration(chain.backpressuredSeconds)} in all</dd></div>
      <div><dt>Rows in</dt><dd>${rate(chain.recordsInPerSecond)}/s, ${compact(chain.recordsIn)} since ${since}</dd></div>
      <div><dt>Rows out</dt><dd>${chain.recordsOut == null ? "the sink does not say" : `${rate(chain.recordsOutPerSecond)}/s, ${compact(chain.recordsOut)} since ${since}`}</dd></div>
      <div><dt>Batch</dt><dd>${chain.batch < 0 ? "none yet" : `${count(chain.batch)}, took ${ms(chain.lastBatchMs)}`}</dd></div>
      ${chain.runningSeconds >= LONG_BATCH && html`<div><dt>Running batch</dt><dd>${chain.runningRecords == null ? "" : `${plural(chain.runningRecords, "row")}, `}for ${age(chain.runningSeconds)}</dd></div>`}
      <div><dt>Watermark (UTC)</dt><dd>${eventTime(chain.watermarkMs)}</dd></div>
    </dl>
    ${points.some((point) => point.chains?.[chain.uid]) && html`<div class="sparks">
      <div><h3>Busy</h3><${Sparkline} label="Busy" now=${now} points=${of("busy")} show=${percent} most=${1} /></div>
      <div><h3>Rows in per second</h3><${Sparkline} label="Rows per second" now=${now} points=${of("rowsPerSecond")} show=${(value) => `${rate(value)}/s`} /></div>
    </div>`}
    <${Times} times=${chain.batchTimes} />
    <${Inputs} chain=${chain} />
    <${Operators} chain=${chain} job=${doc.job} />
    ${late.length > 0 && html`<h3>Late rows that were dropped</h3><table><tbody>${late.map(([uid, rows]) => html`<tr key=${uid}><th scope="row">${uid}</th><td class="number">${count(rows)}</td></tr>`)}</tbody></table>`}
    <${Partitions} chain=${chain} />
    <${LastPart} chain=${chain} last=${doc.job.lastCheckpoint} />
    ${doc.job.failure && html`<h3>Last failure of the job</h3><pre class="reason" tabindex="0">${doc.job.failure}</pre>`}
  </aside>`;
}

const SPLIT = [
  ["offsets", "finding new input"],
  ["planning", "planning"],
  ["execution", "computing and writing"],
  ["logs", "writing Spark’s logs"],
  ["waiting", "waiting for room"],
];

/** Where the time of a batch goes. */
function Times({ times }) {
  if (!times) return null;
  const parts = SPLIT.map(([name, label]) => ({ name, label, seconds: times[name] ?? 0 }));
  const sinks = Object.entries(times.sinks ?? {}).map(([uid, seconds]) => ({ name: "sink", label: times.sinksCompute ? `compute and write to ${uid}` : `write to ${uid}`, seconds }));
  const known = parts.reduce((sum, each) => sum + each.seconds, 0);
  const whole = Math.max(times.seconds ?? 0, known) || 1;
  const rest = whole - known;
  const all = rest > whole / 100 ? [...parts, { name: "rest", label: "the rest", seconds: rest }] : parts;
  let x = 0;
  return html`<h3>Where a batch’s time goes <span class="muted">mean of ${count(times.batches)}: ${duration(times.seconds)}</span></h3>
    <svg class="split" viewBox="0 0 400 16" preserveAspectRatio="none" aria-hidden="true">${all.map((each) => {
      const width = (each.seconds / whole) * 400;
      const from = x;
      x += width;
      return width > 0 && html`<rect key=${each.name} class=${`part ${each.name}`} x=${from} width=${width} height="16" />`;
    })}</svg>
    <table class="times"><tbody>
      ${all.flatMap((each) => [
        html`<tr key=${each.name}><th scope="row"><i class=${each.name}></i>${each.label}</th><td class="number">${duration(each.seconds)}</td><td class="number">${percent(each.seconds / whole)}</td></tr>`,
        ...(each.name === "execution" ? sinks.map((part) => html`<tr key=${part.label} class="inner"><th scope="row">of it, ${part.label}</th><td class="number">${duration(part.seconds)}</td><td class="number">${percent(part.seconds / whole)}</td></tr>`) : []),
      ])}
      ${times.stateCommit != null && html`<tr class="inner"><th scope="row">tasks’ time to commit state</th><td class="number">${duration(times.stateCommit)}</td><td></td></tr>`}
    </tbody></table>`;
}

function Inputs({ chain }) {
  if (!chain.inputs.length) return null;
  return html`<h3>Inputs</h3><div class="scroll" tabindex="0" role="region" aria-label="Inputs"><table>
    <thead><tr><th scope="col">Input</th><th scope="col">From</th><th scope="col">Watermark (UTC)</th><th scope="col" class="number">Behind</th><th scope="col" class="number">Unread</th><th scope="col" class="number">Idle</th></tr></thead>
    <tbody>${chain.inputs.map((input) => html`<tr key=${`${input.uid} ${input.chain}`}>
      <th scope="row">${input.uid}${input.holdsWatermarkBack && html`<span class="flag">holds the watermark back</span>`}</th><td>${input.chain ? `chain ${input.chain}` : "source"}</td>
      <td>${input.ended ? "ended" : eventTime(input.watermarkMs)}</td><td class="number">${watermarkLag(input.lagMs, input.watermarkMs)}</td><td class="number">${unread(input) || ABSENT}</td><td class="number">${age(input.idleSeconds)}</td></tr>`)}</tbody>
  </table></div>`;
}

function Operators({ chain, job }) {
  const parts = partsOf(job);
  const figures = new Map((chain.operatorFigures ?? []).map((each) => [each.uid, each]));
  const measured = figures.size > 0;
  const kind = (part) => (!part ? "" : part.kind !== "operator" ? `${part.kind} ${part.format ?? ""}` : part.sql ? "SQL" : "Python");
  return html`<h3>Operators</h3><div class="scroll" tabindex="0" role="region" aria-label="Operators"><table>
    <thead><tr><th scope="col">Operator</th><th scope="col">Kind</th>${measured && html`<th scope="col" class="number">Rows in</th><th scope="col" class="number">Rows out</th><th scope="col" class="number" title="Of a sink, the mean of its last batches; of state, the sum of all tasks in the last batch">Time per batch</th><th scope="col" class="number">State rows</th><th scope="col" class="number">State</th><th scope="col" class="number">Late</th>`}</tr></thead>
    <tbody>${chain.operators.map((uid) => {
      const figure = figures.get(uid) ?? {};
      const part = parts.get(uid);
      return html`<tr key=${uid}><th scope="row">${uid}</th><td>${kind(part)}</td>${measured && html`<td class="number">${compact(figure.rowsIn)}</td><td class="number">${compact(figure.rowsOut)}</td><td class="number">${duration(figure.seconds)}</td><td class="number">${compact(figure.stateRows)}</td><td class="number">${size(figure.stateBytes)}</td><td class="number">${compact(figure.lateRows)}</td>`}</tr>`;
    })}</tbody></table></div>
    ${chain.operators.map((uid) => parts.get(uid)).filter((part) => part?.sql).map((part) => html`<details key=${part.uid}><summary>Query of ${part.name}</summary><pre tabindex="0">${part.sql}</pre></details>`)}`;
}

function Partitions({ chain }) {
  const inputs = sourcesOf(chain).filter((input) => input.partitions?.length);
  return inputs.map((input) => {
    const behind = [...input.partitions].sort((a, b) => (b.lag ?? 0) - (a.lag ?? 0));
    return html`<details key=${input.uid}><summary>Partitions of ${input.uid} (${count(behind.length)}), most lag first</summary><div class="scroll" tabindex="0" role="region" aria-label=${`Partitions of ${input.uid}`}><table>
      <thead><tr><th scope="col">Topic</th><th scope="col" class="number">Partition</th><th scope="col" class="number">Position</th><th scope="col" class="number">Lag</th></tr></thead>
      <tbody>${behind.slice(0, 200).map((each) => html`<tr key=${`${each.topic} ${each.partition}`}><td>${each.topic}</td><td class="number">${each.partition}</td><td class="number">${count(each.position)}</td><td class="number">${each.lag == null ? ABSENT : count(each.lag)}</td></tr>`)}</tbody>
    </table></div></details>`;
  });
}

function LastPart({ chain, last }) {
  const task = last?.tasks?.[chain.uid];
  if (!task) return null;
  return html`<h3>Its part in checkpoint ${last.id}</h3><dl class="facts">
    <div><dt>Barriers came after</dt><dd>${ms(task.start_delay)}</dd></div><div><dt>Alignment</dt><dd>${ms(task.alignment_duration)}</dd></div>
    <div><dt>Cut</dt><dd>${ms(task.sync_duration)}</dd></div><div><dt>Upload</dt><dd>${ms(task.async_duration)}</dd></div>
    <div><dt>Written</dt><dd>${size(task.checkpointed_size)}</dd></div><div><dt>State</dt><dd>${size(task.state_size)}</dd></div></dl>`;
}
