import { useState } from "preact/hooks";
import { TERMINAL } from "../derive.js";
import { ABSENT, ago, clip, clockTime, count, duration, ms, plural, size } from "../format.js";
import { html } from "../html.js";
import { Copy } from "./copy.js";

const MOST = 50;
const WIDTH = 700;
const LEAST = 24; // places for bars, so that a few do not look like walls
const HEIGHT = 84;
const PHASES = [
  ["delay", "waits for its barriers"],
  ["alignment", "aligns"],
  ["sync", "cuts (sync)"],
  ["upload", "uploads (async)"],
];

/** The checkpoints: one bar each, the parts of the chosen one, a summary, and those to restore from. */
export function Checkpoints({ picture, now }) {
  const { doc, details } = picture;
  const statistics = doc.checkpoints;
  const [chosen, setChosen] = useState(null);
  if (!statistics) return html`<section class="panel" aria-label="Checkpoints"><h2>Checkpoints</h2><p class="empty">This driver does not report its checkpoints to the page.</p></section>`;
  const history = statistics.history.slice(0, MOST);
  const current = history.find((each) => each.id === chosen) ?? history.find((each) => each.status !== "IN_PROGRESS") ?? history[0];
  const last = doc.job.lastCheckpoint;
  const full = current && (details.get(current.id) ?? (last?.id === current.id ? { ...current, tasks: last.tasks } : current));
  return html`<section class="panel" aria-label="Checkpoints">
    <div class="bar"><h2>Checkpoints</h2><p class="counts">${count(statistics.counts.completed)} completed, <span class=${statistics.counts.failed ? "bad" : ""}>${count(statistics.counts.failed)} failed</span>, ${count(statistics.counts.in_progress)} in progress</p></div>
    ${history.length === 0
      ? html`<p class="empty">${TERMINAL.has(doc.job.state) ? "There was no checkpoint in this process." : "The first checkpoint has not started yet."}</p>`
      : html`<${Timeline} history=${history} chosen=${current.id} choose=${setChosen} now=${now} /><${Parts} entry=${full} chains=${doc.job.chains} now=${now} />`}
    <${Summary} statistics=${statistics} now=${now} />
    <${Retained} history=${history} last=${last} job=${doc.job} now=${now} />
  </section>`;
}

const lasted = (each, now) => (each.status === "IN_PROGRESS" ? Math.max(0, now * 1000 - each.trigger_timestamp)
  : each.status === "FAILED" ? Math.max(0, (each.failure_timestamp ?? each.trigger_timestamp) - each.trigger_timestamp) : Math.max(0, each.end_to_end_duration));
const kindOf = (each) => (each.is_savepoint ? "savepoint" : each.checkpoint_type?.startsWith("UNALIGNED") ? "unaligned checkpoint" : "checkpoint");
const toneOf = (each) => (each.status === "FAILED" ? "failed" : each.status === "IN_PROGRESS" ? "running" : each.is_savepoint ? "savepoint" : "completed");

function sentence(each, now) {
  const name = `${kindOf(each)} ${each.id}`;
  const at = clockTime(each.trigger_timestamp / 1000, now);
  if (each.status === "FAILED") return `${name} at ${at} failed after ${ms(lasted(each, now))}: ${(each.failure_message ?? "no reason given").split("\n")[0]}`;
  if (each.status === "IN_PROGRESS") return `${name} has been running for ${ms(lasted(each, now))}`;
  return `${name} at ${at} took ${ms(each.end_to_end_duration)} and wrote ${size(each.checkpointed_size)}`;
}

function Timeline({ history, chosen, choose, now }) {
  const bars = [...history].reverse();
  const longest = Math.max(1, ...bars.map((each) => lasted(each, now)));
  const step = WIDTH / Math.max(LEAST, bars.length);
  const select = (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const at = bars.findIndex((each) => each.id === chosen) + move;
    if (bars[at]) choose(bars[at].id);
  };
  const chosenBar = bars.find((each) => each.id === chosen);
  return html`<div class="timeline">
    <div class="axis"><span>${ms(longest)}</span><span>0</span></div>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT + 4}`} role="slider" tabindex="0" preserveAspectRatio="none" onKeyDown=${select}
        aria-label="Checkpoint" aria-valuemin=${bars[0].id} aria-valuemax=${bars.at(-1).id} aria-valuenow=${chosen} aria-valuetext=${sentence(chosenBar, now)}>
      <line class="ground" x1="0" x2=${WIDTH} y1=${HEIGHT + 0.5} y2=${HEIGHT + 0.5} />
      ${bars.map((each, i) => {
        const x = WIDTH - (bars.length - i) * step;
        const height = Math.max(3, (lasted(each, now) / longest) * (HEIGHT - 14));
        return html`<g key=${each.id} class=${`bar-of ${toneOf(each)} ${each.id === chosen ? "chosen" : ""}`} onClick=${() => choose(each.id)}>
          <title>${sentence(each, now)}</title>
          <rect class="touch" x=${x} y="0" width=${step} height=${HEIGHT + 4} />
          <rect class="height" x=${x + step * 0.16} y=${HEIGHT - height} width=${step * 0.68} height=${height} rx="1.5" />
          ${each.status === "FAILED" && html`<path class="cross" d=${`M${x + step / 2 - 3.5},${HEIGHT - height - 9}l7,6m0,-6l-7,6`} />`}
        </g>`;
      })}
    </svg>
  </div>
  <p class="timekey"><span>${bars.length >= LEAST && clockTime(bars[0].trigger_timestamp / 1000, now)}</span><span class="keys">${["completed", "savepoint", "failed"].map((name) => html`<span key=${name}><i class=${name}></i>${name === "completed" ? "checkpoint" : name}</span>`)}</span><span>${clockTime(bars.at(-1).trigger_timestamp / 1000, now)}</span></p>`;
}

/** When each chain did what, in one checkpoint. */
function Parts({ entry, chains, now }) {
  const order = new Map(chains.map((chain, i) => [chain.uid, i]));
  const tasks = Object.values(entry.tasks ?? {}).sort((a, b) => (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0));
  const rows = tasks.map((task) => ({ task, phases: phasesOf(task) }));
  const longest = Math.max(1, ...rows.map(({ phases }) => phases.reduce((sum, each) => sum + each, 0)));
  const failed = entry.status === "FAILED";
  return html`<div class="parts">
    <h3 class=${failed ? "bad" : ""}>${kindOf(entry).replace(/^./, (first) => first.toUpperCase())} ${entry.id} ${failed ? "failed" : entry.status === "IN_PROGRESS" ? "in progress" : ""}</h3>
    <p class="muted">${clockTime(entry.trigger_timestamp / 1000, now)} · ${failed ? `failed after ${ms(lasted(entry, now))}` : `took ${ms(lasted(entry, now))}`} · ${size(entry.checkpointed_size)} written of ${size(entry.state_size)}${entry.persisted_data > 0 ? ` · ${size(entry.persisted_data)} in flight` : ""} · ${entry.num_acknowledged_subtasks} of ${plural(entry.num_subtasks, "chain")}</p>
    ${failed && html`<pre class="reason" tabindex="0">${entry.failure_message ?? "no reason given"}</pre>`}
    ${rows.length > 0 && html`<div class="gantt-frame" tabindex="0" role="region" aria-label="Parts of the chains"><table class="gantt">
      <thead class="offscreen"><tr><th scope="col">Chain</th><th scope="col">Phases</th><th scope="col">Duration</th><th scope="col">Written</th></tr></thead>
      <tbody>${rows.map(({ task, phases }) => html`<tr key=${task.id}>
        <th scope="row" title=${task.id}>${clip(task.id, 24)}</th>
        <td class="phases">${task.status === "COMPLETED" ? html`<${Phases} phases=${phases} longest=${longest} />` : html`<span class="muted">${failed ? "gave no part" : "under way"}</span>`}</td>
        <td class="number">${task.status === "COMPLETED" ? ms(task.end_to_end_duration) : ABSENT}</td>
        <td class="number">${size(task.checkpointed_size)}${task.unaligned_checkpoint ? " unaligned" : ""}</td></tr>`)}</tbody>
    </table></div>
    <p class="timekey"><span class="keys">${PHASES.map(([name, label]) => html`<span key=${name}><i class=${name}></i>${label}</span>`)}</span></p>`}
  </div>`;
}

const phasesOf = (task) => [task.start_delay, task.alignment_duration, task.sync_duration, task.async_duration].map((each) => Math.max(0, each));

function Phases({ phases, longest }) {
  let x = 0;
  const label = PHASES.map(([, name], i) => `${name} ${ms(phases[i])}`).join(", ");
  return html`<svg viewBox="0 0 200 12" preserveAspectRatio="none" role="img" aria-label=${label}><title>${label}</title>
    ${phases.map((each, i) => {
      const width = (each / longest) * 200;
      const from = x;
      x += width;
      return width > 0 && html`<rect class=${`phase ${PHASES[i][0]}`} x=${from} y="1" width=${Math.max(width, 1)} height="10" />`;
    })}
  </svg>`;
}

function Summary({ statistics, now }) {
  const { summary, latest } = statistics;
  const took = summary.end_to_end_duration;
  const any = statistics.counts.completed > 0;
  const restored = latest.restored;
  return html`<dl class="facts summary">
    <div><dt>Duration p50 / p99</dt><dd>${any ? `${ms(took.p50)} / ${ms(took.p99)}` : ABSENT}</dd></div>
    <div><dt>Written p50 / p99</dt><dd>${any ? `${size(summary.checkpointed_size.p50)} / ${size(summary.checkpointed_size.p99)}` : ABSENT}</dd></div>
    <div><dt>State</dt><dd>${any ? size(latest.completed?.state_size ?? latest.savepoint?.state_size ?? 0) : ABSENT}</dd></div>
    <div><dt>Restored from</dt><dd title=${restored?.external_path ?? ""}>${restored ? `${restored.is_savepoint ? "savepoint" : "checkpoint"} ${restored.id}, ${ago(now - restored.restore_timestamp / 1000)}` : "nothing"}</dd></div>
    ${latest.failed && html`<div class="wide"><dt>Last failure</dt><dd title=${latest.failed.failure_message ?? ""}>${latest.failed.id}, ${ago(now - (latest.failed.failure_timestamp ?? latest.failed.trigger_timestamp) / 1000)}: ${clip((latest.failed.failure_message ?? "").split("\n")[0], 160)}</dd></div>`}
  </dl>`;
}

/** One argument of a shell's command. */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function Retained({ history, last, job, now }) {
  const kept = history.filter((each) => each.status === "COMPLETED" && each.external_path && !each.discarded);
  if (last?.path && !kept.some((each) => each.id === last.id)) {
    kept.unshift({ id: last.id, is_savepoint: last.kind === "savepoint", trigger_timestamp: last.triggered * 1000, state_size: last.stateSize, external_path: last.path });
  }
  if (!kept.length) return null;
  return html`<details class="retained"><summary>${plural(kept.length, "retained snapshot")} and how to restore ${kept.length === 1 ? "it" : "them"}</summary>
    <ul>${kept.map((each) => {
      const command = `streamjob run job.yaml --from ${quoted(each.external_path)}`;
      return html`<li key=${each.id}><p><b>${kindOf(each)} ${each.id}</b> <span class="muted">${ago(now - each.trigger_timestamp / 1000)} · ${size(each.state_size)}</span> <${Copy} text=${command} what=${`the command that restores ${each.id}`} label="Copy command" /></p><code>${command}</code></li>`;
    })}</ul></details>`;
}
