import { useEffect, useState } from "preact/hooks";
import { chosen, tally } from "../choose.js";
import { ageTone } from "../derive.js";
import { ABSENT, age, clockTime, compact, count, dateTime, plural, rate } from "../format.js";
import { html } from "../html.js";
import { SignIn } from "./signin.js";

const PAGE = 300;
const OLD_SECONDS = 60;
const WORDS = { critical: "in trouble", attention: "to look at", underway: "under way", ok: "running well", still: "at rest" };
const TONES = { critical: "bad", attention: "warm", underway: "busy", ok: "good", still: "still" };

/** The page of all jobs. */
export function Jobs({ live, picture }) {
  const { view, link } = picture;
  const rows = view ? Object.values(view.jobs) : [];
  const bad = rows.filter((row) => row.tone === "critical").length;
  useEffect(() => {
    document.title = bad ? `${bad} in trouble · streaming jobs` : "Streaming jobs";
  }, [bad]);
  if (!view) {
    if (link === "signed-out") return html`<main class="alone"><${SignIn} live=${live} problem=${picture.problem} alone controller /></main>`;
    return html`<main class="alone"><p class="before" role="status">${link === "away" ? `${picture.problem} Trying again …` : "Opening the page of all jobs …"}</p></main>`;
  }
  const now = view.now + (["live", "polling"].includes(link) ? Math.max(0, Date.now() - picture.receivedAt) / 1000 : 0);
  return html`
    <${Notice} live=${live} picture=${picture} />
    <main class=${["live", "polling"].includes(link) ? "" : "stale"}>
      ${rows.length ? html`<${Table} rows=${rows} view=${view} now=${now} picture=${picture} />` : html`<${Nothing} view=${view} picture=${picture} />`}
    </main>`;
}

function Notice({ live, picture }) {
  const { link, problem, awaySince } = picture;
  if (link === "away") {
    const since = clockTime(awaySince / 1000, Date.now() / 1000);
    return html`<p class="notice" role="status"><strong>No connection since ${since}.</strong> ${problem} This is the last picture. Trying again …</p>`;
  }
  if (link === "signed-out") return html`<div class="notice"><${SignIn} live=${live} controller problem=${`${problem} This is the last picture.`} /></div>`;
  return problem ? html`<p class="notice calm" role="status">${problem}</p>` : null;
}

function Head({ view, picture, children }) {
  const words = { live: "Live", polling: "Every 5 s", away: "No connection", "signed-out": "No session" };
  return html`<header class="panel jobshead">
    <div class="title"><h1>Streaming jobs</h1><span class=${`link ${picture.link}`}>${words[picture.link]}</span></div>
    <p class="muted viewer">${view.everyNamespace ? "All namespaces" : "The namespaces that you may read"}, as ${view.viewer}</p>
    ${children}
  </header>`;
}

function Nothing({ view, picture }) {
  return html`<${Head} view=${view} picture=${picture} />
    <section class="panel" aria-label="No jobs">
      ${view.everyNamespace ? html`<p class="empty">There is no StreamJob yet.</p>` : html`<p class="empty">There is no StreamJob, or none that ${view.viewer} may list. To let a service account read those of its namespace:</p>
      <pre tabindex="0">${"kubectl create role streamjob-viewer --namespace NAMESPACE --verb get,list --resource streamjobs.streamjob.io\nkubectl create rolebinding streamjob-viewer --namespace NAMESPACE --role streamjob-viewer --serviceaccount NAMESPACE:streamjob-viewer"}</pre>`}
    </section>`;
}

function Table({ rows, view, now, picture }) {
  const [filter, setFilter] = useState("");
  const [tone, setTone] = useState("");
  const [most, setMost] = useState(PAGE);
  const found = chosen(rows, filter, tone);
  return html`
    <${Head} view=${view} picture=${picture}>
      <div class="choose">
        <div class="tones" role="group" aria-label="Show only">
          <button type="button" class="tone" aria-pressed=${tone === "" ? "true" : "false"} onClick=${() => setTone("")}><b>${count(rows.length)}</b> ${rows.length === 1 ? "job" : "jobs"}</button>
          ${tally(rows).map(([each, number]) => html`<button key=${each} type="button" class=${`tone ${TONES[each]}`} aria-pressed=${tone === each ? "true" : "false"} onClick=${() => setTone(tone === each ? "" : each)}><b>${count(number)}</b> ${WORDS[each]}</button>`)}
        </div>
        <label class="filter">Filter <input type="search" value=${filter} placeholder="name, namespace, state" onInput=${(event) => setFilter(event.target.value)} /></label>
      </div>
      <p class="offscreen" role="status">${plural(found.length, "job")} shown</p>
    <//>
    <section class="panel" aria-label="Jobs">
      <div class="scroll"><table class="jobs">
        <thead><tr><th scope="col">State</th><th scope="col">Job</th><th scope="col" class="number">Lag</th><th scope="col" class="number wide">Rows/s</th><th scope="col" class="number">Checkpoint</th><th scope="col" class="number wide" title="after failures, since the spec changed last">Restarts</th><th scope="col" class="number wide">Slots</th></tr></thead>
        <tbody>${found.slice(0, most).map((row) => html`<${Row} key=${`${row.namespace}/${row.name}`} row=${row} now=${now} />`)}</tbody>
      </table></div>
      ${found.length === 0 && html`<p class="empty">No job matches.</p>`}
      ${found.length > most && html`<button type="button" onClick=${() => setMost(Infinity)}>Show all ${count(found.length)}</button>`}
    </section>`;
}

const STATES = { STABLE: ["Running", "good"], DEPLOYED: ["Running", "good"], SUSPENDED: ["Suspended", "still"], SCHEDULED: ["Scheduled", "still"], FINISHED: ["Finished", "still"], FAILED: ["Failed", "bad"], ROLLED_BACK: ["Rolled back", "warm"] };

/** The word for a lifecycle state, and its tone; all the others are on their way to one of these. */
export const lifecycleOf = (lifecycle) => STATES[lifecycle] ?? [String(lifecycle).charAt(0) + String(lifecycle).slice(1).toLowerCase().replaceAll("_", " "), "busy"];

function Row({ row, now }) {
  const place = `../jobs/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}/ui/`;
  const [word, tone] = lifecycleOf(row.lifecycle);
  const since = row.since != null ? `since ${dateTime(row.since)}` : "";
  return html`<tr class=${`job ${row.tone}`}>
    <td><span class=${`state ${tone}`} title=${since}>${word}</span>${row.driver === "away" && html`<span class="flag">driver away</span>`}</td>
    <th scope="row"><a href=${place}>${row.name}</a> <span class="namespace">${row.namespace}</span>
      <span class="said">${row.sentence}</span>
      ${row.upgrade && row.upgrade !== row.sentence && html`<span class="flag">${row.upgrade}</span>`}</th>
    <td class="number"><${Lag} row=${row} now=${now} /></td>
    <td class="number wide">${isOld(row, now) ? ABSENT : rate(row.rowsPerSecond)}</td>
    <td class="number"><${Checkpoint} row=${row} now=${now} /></td>
    <td class=${`number wide ${row.restarts > 0 ? "some" : ""}`}>${count(row.restarts)}</td>
    <td class="number wide">${count(row.parallelism)}${row.recommended != null && row.recommended !== row.parallelism && html`<span class="flag">fits ${count(row.recommended)}</span>`}</td>
  </tr>`;
}

const isOld = (row, now) => row.figuresAt == null || now - row.figuresAt > OLD_SECONDS;

function Lag({ row, now }) {
  const shown = row.lagSeconds != null ? (row.lagSeconds < 1 ? "under 1 s" : age(row.lagSeconds)) : row.lagRecords != null ? `${compact(row.lagRecords)} rows` : null;
  if (shown == null) return ABSENT;
  if (!isOld(row, now)) return shown;
  return html`<span class="muted">${shown}<span class="flag">${age(now - row.figuresAt)} ago</span></span>`;
}

function Checkpoint({ row, now }) {
  if (row.checkpointAt == null) return ABSENT;
  const seconds = Math.max(0, now - row.checkpointAt);
  return html`<span class=${`age ${ageTone(seconds, row.checkpointInterval, row.state)}`} title=${dateTime(row.checkpointAt)}>${age(seconds)}</span>`;
}
