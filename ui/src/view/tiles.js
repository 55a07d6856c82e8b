import { TERMINAL, ageTone, checkpointAge, eventLag, interval, jobLag, quantile, sourcesOf } from "../derive.js";
import { age, clockTime, compact, duration, ms, plural, rate, size } from "../format.js";
import { html } from "../html.js";
import { SPAN, Sparkline } from "./spark.js";

/** The four numbers. */
export function Tiles({ picture, now }) {
  const { doc, points } = picture;
  const of = (name) => points.map((point) => ({ at: point.at, value: point[name] ?? null }));
  return html`<section class="tiles" aria-label="Four numbers">
    <${Lag} doc=${doc} of=${of} now=${now} />
    <${Rows} doc=${doc} of=${of} now=${now} />
    <${Batch} doc=${doc} of=${of} now=${now} />
    <${Age} doc=${doc} of=${of} now=${now} />
  </section>`;
}

function Tile({ name, value, unit, tone = "calm", word, under, children }) {
  return html`<div class=${`tile ${tone}`}>
    <h2>${name}</h2>
    <p class="value">${value}${unit && html` <small>${unit}</small>`}${word && html`<span class="word">${word}</span>`}</p>
    <p class="under">${under}</p>
    ${children}
  </div>`;
}

function Lag({ doc, of, now }) {
  const { records, seconds } = jobLag(doc);
  const event = records == null && seconds == null ? eventLag(doc) : null;
  const inSeconds = of("lagSeconds");
  const bySeconds = inSeconds.some((each) => each.value != null);
  const known = records != null;
  const sources = doc.job.chains.flatMap(sourcesOf);
  const ended = sources.length > 0 && sources.every((input) => input.ended);
  const under = ended ? "all input has ended" : known ? plural(records, "row not read yet", "rows not read yet") : "the sources do not say how much is unread";
  if (event != null && !ended) return html`<${Tile} name="Lag" value=${age(event)} unit="event time" under="the sources do not say how much is unread" />`;
  return html`<${Tile} name="Lag" value=${seconds != null ? (seconds < 1 ? "under 1 s" : age(seconds)) : compact(records)} unit=${seconds == null && known ? "rows" : ""} under=${under}>
    <${Sparkline} label="Lag" now=${now} points=${bySeconds ? inSeconds : of("lagRecords")} show=${bySeconds ? duration : compact} />
  <//>`;
}

function Rows({ doc, of, now }) {
  const { job } = doc;
  const under = `${rate(job.recordsOutPerSecond)} rows/s out · ${compact(job.recordsIn)} in since ${clockTime(job.startTime, now)}`;
  return html`<${Tile} name="Rows in" value=${rate(job.recordsInPerSecond)} unit="rows/s" under=${under}>
    <${Sparkline} label="Rows per second" now=${now} points=${of("rowsPerSecond")} show=${(value) => `${rate(value)}/s`} />
  <//>`;
}

function Batch({ doc, of, now }) {
  const points = of("batchSeconds");
  const values = points.filter((each) => each.at >= now - SPAN && each.value != null).map((each) => each.value);
  const slowest = doc.job.chains.reduce((worst, chain) => ((chain.lastBatchMs ?? -1) > (worst?.lastBatchMs ?? -1) ? chain : worst), null);
  const last = slowest?.lastBatchMs ?? null;
  const under = values.length ? `p50 ${duration(quantile(values, 0.5))} · p99 ${duration(quantile(values, 0.99))}` : "no batch yet";
  return html`<${Tile} name="Batch" value=${ms(last)} word=${doc.job.chains.length > 1 && slowest ? slowest.uid : ""} under=${under}>
    <${Sparkline} label="Batch duration" now=${now} points=${points} show=${duration} />
  <//>`;
}

function Age({ doc, of, now }) {
  const { job } = doc;
  const last = job.lastCheckpoint;
  const every = interval(doc);
  const over = TERMINAL.has(job.state);
  const seconds = checkpointAge(doc, now);
  const tone = ageTone(seconds, every, job.state);
  const words = { warm: "late", hot: "overdue" };
  const plan = every ? `every ${age(every)}` : doc.checkpointing ? "on request only" : "";
  const under = last
    ? [plan, `took ${ms(last.durationMs)}`, `${size(last.stateSize)} of state`].filter(Boolean).join(" · ")
    : [over ? "none was completed" : "none completed yet", plan].filter(Boolean).join(" · ");
  const lines = every ? [{ at: 2 * every, tone: "warm" }, { at: 4 * every, tone: "hot" }] : [];
  return html`<${Tile} name=${last?.kind === "savepoint" ? "Last savepoint" : "Last checkpoint"} value=${seconds == null ? "none" : age(seconds)} unit=${seconds == null ? "" : "ago"} tone=${tone} word=${words[tone] ?? ""} under=${under}>
    <${Sparkline} label="Age of the last checkpoint" now=${now} points=${of("checkpointAgeSeconds")} show=${duration} lines=${lines} most=${every ? 2.2 * every : null} />
  <//>`;
}
