import { useEffect, useRef, useState } from "preact/hooks";
import { busyTone, placeOf, sourcesOf, troubled, waits } from "../derive.js";
import { ABSENT, ago, clip, compact, eventTime, ms, percent, plural, rate, size, unread, watermarkLag, duration, age } from "../format.js";
import { graphOf, line, place } from "../graph.js";
import { html } from "../html.js";

const LEAST_SCALE = 0.62;

/** The graph of the job, and the same as a table. */
export function GraphPanel({ doc, now, chosen, choose }) {
  const frame = useRef(null);
  const [width, setWidth] = useState(0);
  const [whole, setWhole] = useState(false);
  const [fits, setFits] = useState(true);
  useEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => setWidth(contentRect.width));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const trouble = doc.diagnosis?.reasons?.find((each) => each.chain)?.chain ?? null;
  const wanted = chosen ?? trouble;
  useEffect(() => {
    // A chain in trouble must be in sight, however large the graph.
    if (wanted != null && !fits && !whole) show(frame.current, wanted);
  }, [wanted, fits, whole, width > 0]);
  return html`<section class="panel" aria-label="Graph">
    <div class="bar"><div class="start"><h2>Graph</h2>${!fits && html`<button type="button" class="plain" aria-pressed=${whole ? "true" : "false"} onClick=${() => setWhole(!whole)}>${whole ? "Readable size" : "Show all of it"}</button>`}</div><${Legend} /></div>
    <div class="frame" tabindex="0" role="group" aria-label="Picture of the graph" ref=${frame}>${width > 0 && html`<${Picture} doc=${doc} now=${now} width=${width} whole=${whole} setFits=${setFits} chosen=${chosen} choose=${choose} />`}</div>
    ${doc.job.chains.length > 0 && html`<details class="astable"><summary>The graph as a table</summary><${Table} doc=${doc} now=${now} choose=${choose} /></details>`}
  </section>`;
}

function Legend() {
  return html`<ul class="legend" aria-label="Legend">
    <li><svg width="22" height="10" aria-hidden="true"><rect class="gauge calm" width="22" height="10" rx="2" /></svg> busy below 50 %</li>
    <li><svg width="22" height="10" aria-hidden="true"><rect class="gauge half" width="22" height="10" rx="2" /><${Pattern} tone="half" width=${22} height=${10} /></svg> 50 % and more</li>
    <li><svg width="22" height="10" aria-hidden="true"><rect class="gauge full" width="22" height="10" rx="2" /><${Pattern} tone="full" width=${22} height=${10} /></svg> 80 % and more</li>
    <li><svg width="22" height="12" aria-hidden="true"><rect class="key waits" x="1.5" y="1.5" width="19" height="9" rx="2" /></svg> waits for its readers</li>
    <li><svg width="22" height="12" aria-hidden="true"><rect class="key trouble" x="1" y="1" width="20" height="10" rx="2" /></svg> in trouble</li>
  </ul>`;
}

/** Stripes or a lattice, so that nobody needs to tell colours apart. */
function Pattern({ tone, width, height, x = 0, y = 0 }) {
  if (tone !== "half" && tone !== "full") return null;
  const step = tone === "full" ? 5 : 8;
  let path = "";
  for (let at = -height; at < width; at += step) {
    const from = Math.max(0, at);
    const to = Math.min(width, at + height);
    path += `M${x + from},${y + height - (from - at)}L${x + to},${y + height - (to - at)}`;
    if (tone === "full") path += `M${x + from},${y + (from - at)}L${x + to},${y + (to - at)}`;
  }
  return html`<path class=${`pattern ${tone}`} d=${path} />`;
}

function show(frame, uid) {
  const node = [...frame.querySelectorAll(".chain")].find((each) => each.dataset.uid === uid);
  if (!node) return;
  const [outer, inner] = [frame.getBoundingClientRect(), node.getBoundingClientRect()];
  const left = frame.scrollLeft + inner.left - outer.left - (outer.width - inner.width) / 2;
  const top = frame.scrollTop + inner.top - outer.top - (outer.height - inner.height) / 2;
  frame.scrollTo({ left, top });
}

function Picture({ doc, now, width, whole, setFits, chosen, choose }) {
  const narrow = width < 640;
  const graph = graphOf(doc.job);
  const direction = narrow ? "TB" : "LR";
  const places = graph.nodes.length ? place(graph, direction) : null;
  const least = places ? width / places.width : 1;
  useEffect(() => setFits(least >= LEAST_SCALE), [least >= LEAST_SCALE]);
  if (!graph.nodes.length) return html`<p class="empty">The job’s graph is not known yet.</p>`;
  const scale = Math.min(1, whole ? least : Math.max(LEAST_SCALE, least));
  const trouble = troubled(doc);
  const label = `${plural(doc.job.chains.length, "chain")}, ${plural(doc.job.channels.length, "channel")}, ${plural(doc.job.sinks.length, "sink")}`;
  return html`<svg class="graph" role="group" aria-label=${`Graph of the job: ${label}`} width=${places.width * scale} height=${places.height * scale} viewBox=${`0 0 ${places.width} ${places.height}`}>
    <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path class="arrow" d="M0,0.5L7.5,4L0,7.5Z" /></marker></defs>
    ${graph.edges.map((edge) => html`<${Channel} key=${edge.id} edge=${edge} at=${places.edges.get(edge.id)} direction=${direction} />`)}
    ${graph.nodes.map((node) => {
      const { x, y } = places.nodes.get(node.id);
      const at = `translate(${(x - node.width / 2).toFixed(1)},${(y - node.height / 2).toFixed(1)})`;
      return html`<g key=${node.id} transform=${at}>${node.kind === "chain"
        ? html`<${Chain} node=${node} doc=${doc} trouble=${trouble.get(node.uid) ?? ""} chosen=${chosen === node.uid} choose=${choose} />`
        : html`<${End} node=${node} now=${now} />`}</g>`;
    })}
  </svg>`;
}

function Channel({ edge, at, direction }) {
  const { channel } = edge;
  const tone = channel ? busyTone(channel.fill) : "calm";
  const path = html`<path class=${`edge ${tone} ${channel?.feedback ? "feedback" : ""}`} d=${line(at.points, direction)} marker-end="url(#arrow)" />`;
  if (!channel) return path;
  const full = Math.min(1, channel.fill);
  const lag = channel.lagMs != null && channel.lagMs > 0 ? `${duration(channel.lagMs / 1000)} behind` : plural(channel.records, "row").replace(/^[\d,]+/, compact(channel.records));
  const title = `${channel.from} → ${channel.to}: ${percent(channel.fill)} full, ${plural(channel.records, "row")} and ${size(channel.bytes)} in flight` +
    (channel.lagMs != null ? `, the reader is ${duration(channel.lagMs / 1000)} behind in event time` : "") +
    (channel.workSeconds != null ? `, ${duration(channel.workSeconds)} of work for the reader` : "") +
    (channel.feedback ? ", closes a loop" : "");
  return html`<g class="channel"><title>${title}</title>${path}
    <g transform=${`translate(${(at.x - 46).toFixed(1)},${(at.y - 16).toFixed(1)})`}>
      <rect class="plate" width="92" height="32" rx="4" />
      <rect class="trough" x="7" y="5" width="42" height="8" rx="2" />
      <rect class=${`gauge ${tone}`} x="7" y="5" width=${Math.max(full > 0 ? 1 : 0, 42 * full)} height="8" rx="2" />
      <${Pattern} tone=${tone} x=${7} y=${5} width=${42 * full} height=${8} />
      <text class="small" x="85" y="12.5" text-anchor="end">${percent(channel.fill)}</text>
      <text class="small muted" x="46" y="26" text-anchor="middle">${clip(lag, 15)}</text>
    </g></g>`;
}

const figuresOf = (doc, chain) => doc.point?.chains?.[chain.uid] ?? {};
export const busyOf = (doc, chain) => chain.busy ?? figuresOf(doc, chain).busy ?? null;

/** A chain in one sentence, for those who do not see the picture. */
function words(doc, chain, trouble) {
  const busy = busyOf(doc, chain);
  return [
    `Chain ${chain.uid}`,
    chain.finished ? "finished" : busy == null ? "" : `busy ${percent(busy)}`,
    trouble ? "in trouble" : "",
    waits(chain) ? `waits for its readers ${percent(chain.backpressured)}` : "",
    `${rate(chain.recordsInPerSecond)} rows per second in`,
    "show details",
  ].filter(Boolean).join(", ");
}

function Chain({ node, doc, trouble, chosen, choose }) {
  const { data: chain, width, height } = node;
  const busy = busyOf(doc, chain);
  const tone = chain.finished ? "done" : busyTone(busy);
  const share = Math.min(1, busy ?? 0);
  const press = (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(node.uid);
    }
  };
  const figures = new Map((chain.operatorFigures ?? []).map((each) => [each.uid, each]));
  const state = waits(chain) ? `waits ${percent(chain.backpressured)}` : chain.finished ? "finished" : chain.batch < 0 ? "no batch yet" : `batch ${compact(chain.batch)} · ${ms(chain.lastBatchMs)}`;
  return html`<g class=${`chain ${tone} ${trouble} ${waits(chain) ? "waits" : ""} ${chosen ? "chosen" : ""}`} role="button" tabindex="0" data-uid=${node.uid} aria-label=${words(doc, chain, trouble)} aria-pressed=${chosen ? "true" : "false"}
      onClick=${() => choose(node.uid)} onKeyDown=${press}>
    <title>${chain.uid}</title>
    <rect class="box" width=${width} height=${height} rx="6" />
    <text class="name" x="12" y="22">${clip(chain.uid, 20)}</text>
    <text class="busy" x=${width - 12} y="22" text-anchor="end">${chain.finished ? "✓" : busy == null ? "" : percent(busy)}</text>
    <rect class="trough" x="12" y="31" width=${width - 24} height="8" rx="2" />
    ${share > 0 && !chain.finished && html`<rect class=${`gauge ${tone}`} x="12" y="31" width=${(width - 24) * share} height="8" rx="2" />`}
    ${!chain.finished && html`<${Pattern} tone=${tone} x=${12} y=${31} width=${(width - 24) * share} height=${8} />`}
    <text class="figures" x="12" y="55">${`${rate(chain.recordsInPerSecond)} → ${chain.recordsOut == null ? "?" : rate(chain.recordsOutPerSecond)} rows/s`}</text>
    <text class=${waits(chain) ? "small waiting" : "small muted"} x="12" y="71">${clip(state, 34)}</text>
    ${node.operators.length > 0 && html`<line class="rule" x1="12" x2=${width - 12} y1="80.5" y2="80.5" />`}
    ${node.operators.map((uid, i) => {
      const figure = figures.get(uid);
      const holds = figure?.stateBytes ? size(figure.stateBytes) : figure?.stateRows ? `${compact(figure.stateRows)} rows` : "";
      return html`<g><text class="operator" x="12" y=${96 + i * 18}>${clip(uid, holds ? 20 : 28)}</text>${holds && html`<text class="small muted" x=${width - 12} y=${96 + i * 18} text-anchor="end">${holds}</text>`}</g>`;
    })}
    ${node.hidden > 0 && html`<text class="small muted" x="12" y=${96 + node.operators.length * 18}>and ${plural(node.hidden, "other operator")}</text>`}
  </g>`;
}

function End({ node, now }) {
  const { kind, part, width, height, uid, data } = node;
  const lines = kind === "source" ? sourceLines(data) : kind === "sink" ? sinkLines(data, now) : [];
  const where = [part?.format, placeOf(part) || data?.target].filter(Boolean).join(" ");
  return html`<g class=${`end ${kind}`}>
    <title>${[part?.name ?? uid, where].filter(Boolean).join(": ")}</title>
    <rect class="box" width=${width} height=${height} rx=${kind === "planned" ? 6 : 14} />
    <text class="kind" x="12" y="19">${kind === "planned" ? "operator" : kind}</text>
    <text class="small muted" x=${width - 12} y="19" text-anchor="end">${clip(part?.format ?? data?.format ?? "", 14)}</text>
    <text class="name" x="12" y="36">${clip(part?.name ?? uid, 21)}</text>
    ${lines.map(([text, tone], i) => html`<text class=${`small ${tone ?? "muted"}`} x="12" y=${52 + i * 14}>${clip(text, 30)}</text>`)}
  </g>`;
}

function sourceLines(input) {
  if (!input) return [["not read yet"]];
  if (input.ended) return [["input has ended"]];
  const lag = [
    input.lagSeconds != null ? age(input.lagSeconds) : "",
    unread(input, " rows"),
  ].filter(Boolean).join(", ");
  const idle = input.idleSeconds != null && input.idleSeconds >= 10 ? `idle ${age(input.idleSeconds)}` : "";
  const behind = watermarkLag(input.lagMs, input.watermarkMs);
  const mark = behind !== ABSENT ? `watermark ${behind} behind` : eventTime(input.watermarkMs) === ABSENT ? "no watermark" : `watermark ${eventTime(input.watermarkMs).slice(0, 16)}`;
  const left = input.idle ? `idle ${age(input.idleSeconds)}, left out` : "";
  return [[lag ? `lag ${lag}` : left || idle || "lag not known"], input.holdsWatermarkBack ? ["holds the watermark back", "waiting"] : [lag && left ? left : mark]];
}

function sinkLines(sink, now) {
  if (!sink) return [["nothing written yet"]];
  if (sink.delivery === "at-least-once") return [["rows are visible at once"], [`${compact(sink.records)} rows written`]];
  const last = sink.lastPublished;
  const waiting = sink.batchesWaiting ? `${plural(sink.batchesWaiting, "batch waits", "batches wait")}` : "nothing waits";
  return [[last ? `visible up to checkpoint ${last.id}` : "nothing visible yet"], [last ? `${ago(now - last.time)}, ${waiting}` : waiting]];
}

function Table({ doc, now, choose }) {
  const { job } = doc;
  const sinks = new Map(job.sinks.map((sink) => [sink.uid, sink]));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Graph as tables"><table>
    <caption>Chains</caption>
    <thead><tr><th scope="col">Chain</th><th scope="col">Reads</th><th scope="col">Writes</th><th scope="col" class="number">Busy</th><th scope="col" class="number">Waits</th><th scope="col" class="number">Rows in/s</th><th scope="col" class="number">Rows out/s</th><th scope="col" class="number">Last batch</th><th scope="col">Watermark (UTC)</th></tr></thead>
    <tbody>${job.chains.map((chain) => html`<tr key=${chain.uid}>
      <th scope="row"><button type="button" class="plain" onClick=${() => choose(chain.uid)}>${chain.uid}</button></th>
      <td>${chain.inputs.map((input) => input.chain ?? input.uid).join(", ")}</td>
      <td>${[...job.channels.filter((channel) => channel.from === chain.uid).map((channel) => channel.to), ...chain.operators.filter((uid) => sinks.has(uid))].join(", ")}</td>
      <td class="number">${chain.finished ? "finished" : percent(busyOf(doc, chain))}</td>
      <td class="number">${percent(chain.backpressured)}</td>
      <td class="number">${rate(chain.recordsInPerSecond)}</td><td class="number">${rate(chain.recordsOut == null ? null : chain.recordsOutPerSecond)}</td>
      <td class="number">${ms(chain.lastBatchMs)}</td><td>${eventTime(chain.watermarkMs)}</td></tr>`)}</tbody>
  </table>
  ${job.channels.length > 0 && html`<table>
    <caption>Channels</caption>
    <thead><tr><th scope="col">From</th><th scope="col">To</th><th scope="col" class="number">Fill</th><th scope="col" class="number">Rows</th><th scope="col" class="number">Size</th><th scope="col" class="number">Behind</th><th scope="col" class="number">Work</th></tr></thead>
    <tbody>${job.channels.map((channel) => html`<tr key=${`${channel.from} ${channel.to}`}><td>${channel.from}</td><td>${channel.to}${channel.feedback ? " (loop)" : ""}</td>
      <td class="number">${percent(channel.fill)}</td><td class="number">${compact(channel.records)}</td><td class="number">${size(channel.bytes)}</td><td class="number">${ms(channel.lagMs)}</td><td class="number">${duration(channel.workSeconds)}</td></tr>`)}</tbody>
  </table>`}
  <table>
    <caption>Sources</caption>
    <thead><tr><th scope="col">Source</th><th scope="col">Chain</th><th scope="col">Lag and watermark</th></tr></thead>
    <tbody>${job.chains.flatMap((chain) => sourcesOf(chain).map((input) => html`<tr key=${input.uid}><th scope="row">${input.uid}</th><td>${chain.uid}</td><td>${sourceLines(input).map(([text]) => text).join("; ")}</td></tr>`))}</tbody>
  </table>
  <table>
    <caption>Sinks</caption>
    <thead><tr><th scope="col">Sink</th><th scope="col">Target</th><th scope="col">Delivery</th><th scope="col">Visible</th><th scope="col" class="number">Rows visible</th><th scope="col" class="number">Failures</th></tr></thead>
    <tbody>${job.sinks.map((sink) => html`<tr key=${sink.uid}><th scope="row">${sink.name || sink.uid}</th><td>${[sink.format, sink.target].filter(Boolean).join(" ")}</td><td>${sink.lossy ? "lossy" : sink.delivery}</td>
      <td>${sinkLines(sink, now).map(([text]) => text).join("; ")}</td><td class="number">${compact(sink.recordsPublished)}</td><td class="number">${compact(sink.failures)}</td></tr>`)}</tbody>
  </table></div>`;
}
