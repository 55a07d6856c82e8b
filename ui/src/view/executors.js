import { compact, count, plural, size } from "../format.js";
import { html } from "../html.js";

/** The executors of a job that computes in processes of their own, and the state that each has. */
export function Executors({ view }) {
  if (!view?.wanted) return null;
  const { wanted, lost, skew, executors } = view;
  const missing = wanted - executors.length;
  const most = Math.max(1, ...executors.map((each) => each.stateBytes));
  const words = [
    `${count(executors.length)} of ${plural(wanted, "executor")}`,
    `${count(lost)} lost since the start`,
    skew == null ? "no state yet" : `the fullest has ${skew.toFixed(1)} times the average state`,
  ];
  return html`<section class="panel" aria-label="Executors">
    <div class="bar"><h2>Executors</h2><p class="counts"><span class=${missing > 0 ? "bad" : ""}>${words[0]}</span>, ${words[1]}, ${words[2]}</p></div>
    ${executors.length === 0 ? html`<p class="empty">No executor has come yet.</p>` : html`<div class="scroll executors" tabindex="0" role="region" aria-label="Executors as a table"><table>
      <thead><tr><th scope="col">Executor</th><th scope="col">Host</th><th scope="col" class="number">Cores</th><th scope="col" class="number">State stores</th><th scope="col" class="number">State</th><th scope="col"><span class="offscreen">Share of the fullest</span></th></tr></thead>
      <tbody>${executors.map((each) => html`<tr key=${each.id}><th scope="row">${each.name}</th><td>${each.host}</td><td class="number">${compact(each.cores)}</td><td class="number">${compact(each.stateStores)}</td><td class="number">${size(each.stateBytes)}</td>
        <td class="share"><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="trough" width="100" height="10" rx="2" /><rect class="gauge half" width=${(each.stateBytes / most) * 100} height="10" rx="2" /></svg></td></tr>`)}</tbody>
    </table></div>`}
  </section>`;
}
