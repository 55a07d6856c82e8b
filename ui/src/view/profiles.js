import { useEffect, useState } from "preact/hooks";
import { Refused } from "../api.js";
import { ago, duration, percent } from "../format.js";
import { boxes, hottest } from "../flame.js";
import { html } from "../html.js";

/** Where the processes of the job spend their CPU time, as far as somebody has asked. */
export function Profiles({ live, picture, now }) {
  const { profiles } = picture;
  const [chosen, setChosen] = useState(null);
  const [shown, setShown] = useState(null);
  const id = chosen ?? profiles?.[0]?.id;
  const recording = profiles?.find((each) => each.id === id) ?? profiles?.[0];
  const done = recording?.state === "COMPLETED";
  useEffect(() => {
    let current = true;
    setShown(null);
    if (done) live.profile(recording.id).then((profile) => current && setShown(profile), (error) => current && setShown({ problem: error instanceof Refused ? error.message : "The driver does not answer." }));
    return () => (current = false);
  }, [recording?.id, done]);
  if (!recording) return null;
  return html`<section class="panel" aria-label="Profiles">
    <div class="bar"><h2>Profile</h2><p class="counts">${duration(recording.seconds)}, ${ago(now - recording.started)}
      ${profiles.length > 1 && html`<label> <span class="offscreen">Which profile</span><select value=${recording.id} onChange=${(event) => setChosen(event.target.value)}>${profiles.map((each) => html`<option value=${each.id}>${ago(now - each.started)}</option>`)}</select></label>`}</p></div>
    ${recording.state === "RECORDING" && html`<p class="empty" role="status">Recording. It takes ${duration(recording.seconds)}, and some seconds more.</p>`}
    ${recording.state === "FAILED" && html`<pre class="reason" tabindex="0">${recording.failure ?? "The job gave no reason."}</pre>`}
    ${done && !shown && html`<p class="empty" role="status">Fetching …</p>`}
    ${shown?.problem && html`<pre class="reason" tabindex="0">${shown.problem}</pre>`}
    ${shown?.processes?.map((process) => html`<${Process} key=${`${recording.id} ${process.process} ${process.language}`} process=${process} seconds=${shown.seconds} />`)}
  </section>`;
}

function Process({ process, seconds }) {
  const name = `${process.process}, ${process.language === "java" ? "Java" : "Python"}`;
  if (process.failure) return html`<h3>${name}</h3><p class="empty">${process.failure}</p>`;
  return html`<h3>${name} <span class="muted">${duration(process.cpuMs / 1000)} of CPU time in ${duration(seconds)}</span></h3>
    ${process.cpuMs > 0 && html`<${Flame} process=${process} name=${name} />
    <details class="astable"><summary>Functions with the most CPU time of their own</summary><table><tbody>${hottest(process).map(([frame, millis]) => html`<tr key=${frame}><th scope="row">${frame}</th><td class="number">${duration(millis / 1000)}</td><td class="number">${percent(millis / process.cpuMs)}</td></tr>`)}</tbody></table></details>`}`;
}

const WIDTH = 1200;
const ROW = 16;
const CHARACTER = 6.3;
const SHADES = 6;

/** A flame graph; a click on a function lets it fill the width. */
function Flame({ process, name }) {
  const [all] = useState(() => boxes(process));
  const [zoom, setZoom] = useState(all[0]);
  const [over, setOver] = useState(null);
  const from = zoom.start;
  const scale = WIDTH / zoom.millis;
  const drawn = all.filter((box) => box.start < from + zoom.millis && box.start + box.millis > from && box.millis * scale >= 0.7);
  const rows = Math.max(...drawn.map((box) => box.depth)) + 1;
  const told = over ?? zoom;
  return html`<p class="told">${zoom !== all[0] && html`<button type="button" class="plain" onClick=${() => setZoom(all[0])}>Show all</button> `}<code>${told.name}</code> ${duration(told.millis / 1000)}, ${percent(told.millis / all[0].millis)}</p>
    <div class="frame flame" tabindex="0" role="region" aria-label=${`Flame graph of ${name}`}><svg viewBox=${`0 0 ${WIDTH} ${rows * ROW}`} width=${WIDTH} height=${rows * ROW} role="img" aria-label=${`Flame graph of ${name}; the table below names its functions`} onMouseLeave=${() => setOver(null)}>
      ${drawn.map((box) => {
        const x = Math.max(0, (box.start - from) * scale);
        const width = Math.min(WIDTH, (box.start + box.millis - from) * scale) - x;
        const fits = Math.floor((width - 6) / CHARACTER);
        return html`<g key=${box.key} class=${`shade${box.shade % SHADES}${box.depth < zoom.depth ? " under-it" : ""}`} onClick=${() => setZoom(box)} onMouseEnter=${() => setOver(box)}>
          <rect x=${x} y=${box.depth * ROW} width=${width} height=${ROW - 1} />
          ${fits >= 3 && html`<text x=${x + 3} y=${box.depth * ROW + 11}>${box.name.length <= fits ? box.name : `…${box.name.slice(1 - fits)}`}</text>`}</g>`;
      })}
    </svg></div>`;
}
