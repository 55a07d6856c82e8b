import { useRef, useState } from "preact/hooks";
import { html } from "../html.js";

/** Buttons of a session that may change the job. */
export function Actions({ live, job, resource }) {
  const [said, setSaid] = useState(null);
  const [asks, setAsks] = useState("");
  const say = (words, bad = false) => setSaid({ words, bad });
  const running = ["RUNNING", "FINISHING"].includes(job.state);
  const ask = (path, body, name) => live.request(path, body, name, say);
  const change = (path, body) => live.change(path, body, say);
  return html`<div class="actions">
    <div class="buttons">
      <button type="button" disabled=${!running} onClick=${() => ask("v1/checkpoints", {}, "Checkpoint")}>Checkpoint</button>
      <button type="button" disabled=${!running} onClick=${() => ask("v1/savepoints", {}, "Savepoint")}>Savepoint</button>
      <button type="button" disabled=${live.picture.profiles?.[0]?.state === "RECORDING"} title="Record for 30 seconds where the CPU time goes" onClick=${() => live.record(30, say)}>Profile</button>
      <button type="button" onClick=${() => setAsks("rescale")}>Rescale…</button>
      <button type="button" class="danger" disabled=${job.state === "STOPPING"} onClick=${() => setAsks("stop")}>${resource ? "Suspend…" : "Stop…"}</button>
    </div>
    <p class=${`said ${said?.bad ? "bad" : ""}`} role="status">${said?.words}</p>
    ${asks === "stop" && resource && html`<${Suspend} job=${job} change=${change} close=${() => setAsks("")} />`}
    ${asks === "stop" && !resource && html`<${Stop} job=${job} ask=${ask} close=${() => setAsks("")} />`}
    ${asks === "rescale" && html`<${Rescale} job=${job} resource=${resource} change=${change} close=${() => setAsks("")} />`}
  </div>`;
}

function Dialog({ title, close, children }) {
  const opened = useRef(null);
  const ref = (dialog) => {
    if (dialog && opened.current !== dialog) {
      opened.current = dialog;
      dialog.showModal();
    }
  };
  return html`<dialog ref=${ref} onClose=${close} aria-label=${title}><h2>${title}</h2>${children}</dialog>`;
}

const WAYS = [
  ["savepoint", "With a savepoint", "Takes a savepoint and stops. No job deletes it; start from it when you like.", { savepoint: true }],
  ["checkpoint", "With a last checkpoint", "Takes a checkpoint and stops. The next start continues from it.", {}],
  ["drain", "Drain", "Ends all input, emits the results of open windows, publishes them, and stops.", { savepoint: true, drain: true }],
];

function Stop({ job, ask, close }) {
  const [way, setWay] = useState("savepoint");
  const stop = () => {
    ask("v1/stop", WAYS.find(([name]) => name === way)[3], "Stop");
    close();
  };
  return html`<${Dialog} title=${`Stop ${job.name}?`} close=${close}>
    <fieldset><legend>How</legend>
      ${WAYS.map(([name, label, text]) => html`<label class="way">
        <input type="radio" name="way" value=${name} checked=${way === name} onChange=${() => setWay(name)} />
        <span><b>${label}</b> ${text}</span></label>`)}
    </fieldset>
    <div class="buttons"><button type="button" onClick=${close}>Keep it running</button><button type="button" class="danger" onClick=${stop}>Stop the job</button></div>
  <//>`;
}

function Suspend({ job, change, close }) {
  const suspend = () => {
    change("v1/suspend", { suspend: true });
    close();
  };
  return html`<${Dialog} title=${`Suspend ${job.name}?`} close=${close}>
    <p>The controller stops the job and keeps its state. Resume it here, or by setting <code>suspend</code> to false. If the StreamJob is kept in Git, change it there, too.</p>
    <div class="buttons"><button type="button" onClick=${close}>Keep it running</button><button type="button" class="danger" onClick=${suspend}>Suspend the job</button></div>
  <//>`;
}

function Rescale({ job, resource, change, close }) {
  const now = job.graph?.parallelism ?? null;
  const most = job.graph?.maxParallelism ?? null;
  const [wanted, setWanted] = useState(String(now ?? 1));
  const number = /^[1-9]\d{0,4}$/.test(wanted) && Number(wanted) <= (most ?? 32768) ? Number(wanted) : null;
  const rescale = (event) => {
    event.preventDefault();
    if (number == null || number === now) return;
    change("v1/scale", { parallelism: number });
    close();
  };
  const state = `The job runs ${now ?? "an unknown number of"} tasks at once${most ? `; its state has ${most} partitions` : ""}.`;
  const field = html`<p><label>Tasks at once <input type="number" min="1" max=${most ?? 32768} value=${wanted} onInput=${(event) => setWanted(event.target.value)} /></label></p>`;
  if (!resource) {
    return html`<${Dialog} title=${`Rescale ${job.name}`} close=${close}>
      <p>${state} Another number needs a restart, which the controller or you make:</p>${field}
      <pre tabindex="0">${`kubectl scale streamjob/${job.name} --namespace ${job.namespace} --replicas ${wanted}\n\n# on one machine: stop the job, then\nstreamjob run job.yaml --parallelism ${wanted}`}</pre>
      <div class="buttons"><button type="button" onClick=${close}>Close</button></div>
    <//>`;
  }
  return html`<${Dialog} title=${`Rescale ${job.name}?`} close=${close}>
    <form onSubmit=${rescale}>
      <p>${state} ${resource.scalingActs ? "Automatic scaling decides on another number: turn it off first." : "For another number the controller restarts the job from its state. If the StreamJob is kept in Git, change it there, too."}</p>${field}
      <div class="buttons"><button type="button" onClick=${close}>Keep ${now ?? "it"}</button><button type="submit" class="danger" disabled=${resource.scalingActs || number == null || number === now}>Rescale the job</button></div>
    </form>
  <//>`;
}
