import { useRef, useState } from "preact/hooks";
import { html } from "../html.js";

/** Buttons of a session that may change the job. */
export function Actions({ live, job }) {
  const [said, setSaid] = useState(null);
  const [asks, setAsks] = useState("");
  const say = (words, bad = false) => setSaid({ words, bad });
  const running = ["RUNNING", "FINISHING"].includes(job.state);
  const ask = (path, body, name) => live.request(path, body, name, say);
  return html`<div class="actions">
    <div class="buttons">
      <button type="button" disabled=${!running} onClick=${() => ask("v1/checkpoints", {}, "Checkpoint")}>Checkpoint</button>
      <button type="button" disabled=${!running} onClick=${() => ask("v1/savepoints", {}, "Savepoint")}>Savepoint</button>
      <button type="button" onClick=${() => setAsks("rescale")}>Rescale…</button>
      <button type="button" class="danger" disabled=${job.state === "STOPPING"} onClick=${() => setAsks("stop")}>Stop…</button>
    </div>
    <p class=${`said ${said?.bad ? "bad" : ""}`} role="status">${said?.words}</p>
    ${asks === "stop" && html`<${Stop} job=${job} ask=${ask} close=${() => setAsks("")} />`}
    ${asks === "rescale" && html`<${Rescale} job=${job} close=${() => setAsks("")} />`}
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

function Rescale({ job, close }) {
  const [wanted, setWanted] = useState(job.graph?.parallelism ?? 1);
  const most = job.graph?.maxParallelism ?? null;
  return html`<${Dialog} title=${`Rescale ${job.name}`} close=${close}>
    <p>The job runs ${job.graph?.parallelism ?? "an unknown number of"} tasks at once${most ? `; its state has ${most} partitions` : ""}. Another number needs a restart, which the controller or you make:</p>
    <p><label>Tasks at once <input type="number" min="1" max="9999" value=${wanted} onInput=${(event) => setWanted(event.target.value)} /></label></p>
    <pre tabindex="0">${`kubectl scale streamjob/${job.name} --namespace ${job.namespace} --replicas ${wanted}\n\n# on one machine: stop the job, then\nstreamjob run job.yaml --parallelism ${wanted}`}</pre>
    <div class="buttons"><button type="button" onClick=${close}>Close</button></div>
  <//>`;
}
