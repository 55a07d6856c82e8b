import { useState } from "preact/hooks";
import { html } from "../html.js";

/** Asks for a session. */
export function SignIn({ live, problem, alone, controller }) {
  const [token, setToken] = useState("");
  const enter = (event) => {
    event.preventDefault();
    if (token.trim()) live.signIn(token.trim());
  };
  return html`<section class="signin" aria-label="Session">
    ${alone && html`<h1>This page needs a session</h1>`}
    ${problem && html`<p role="alert"><strong>${problem}</strong></p>`}
    ${controller
      ? html`<p>Run <code>streamjob ui --namespace NAMESPACE</code> to open the page with a new session, or enter a token of a service account.</p>`
      : html`<p>Run <code>streamjob ui</code> to open the page with a new session, or enter the job’s token.</p>`}
    <form onSubmit=${enter}>
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="off" value=${token} onInput=${(event) => setToken(event.target.value)} />
      <button type="submit">Open</button>
    </form>
  </section>`;
}
