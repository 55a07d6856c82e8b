import { useCallback, useEffect, useState } from "preact/hooks";
import { serverNow } from "../derive.js";
import { clockTime } from "../format.js";
import { html } from "../html.js";
import { CONTROLLED } from "../session.js";
import { Checkpoints } from "./checkpoints.js";
import { Drawer } from "./drawer.js";
import { Events } from "./events.js";
import { GraphPanel } from "./graph.js";
import { Executors } from "./executors.js";
import { Resource, WithoutDriver } from "./resource.js";
import { Profiles } from "./profiles.js";
import { Headline } from "./headline.js";
import { SignIn } from "./signin.js";
import { Tiles } from "./tiles.js";

/** The whole page. */
export function Page({ live, picture }) {
  const [open, setOpen] = useState(null);
  const close = useCallback(() => {
    setOpen(null);
    document.querySelector(".chain.chosen")?.focus();
  }, []);
  const { doc, link } = picture;
  useEffect(() => {
    if (doc) document.title = `${doc.job.name} · ${doc.job.state.toLowerCase()}`;
  }, [doc?.job.name, doc?.job.state]);
  if (!doc) {
    if (link === "signed-out") return html`<main class="alone"><${SignIn} live=${live} problem=${picture.problem} controller=${CONTROLLED} alone /></main>`;
    if (picture.resource) return html`<${WithoutDriver} live=${live} picture=${picture} />`;
    return html`<main class="alone"><p class="before" role="status">
      ${link === "away" ? `${picture.problem} Trying again …` : "Opening the job’s page …"}</p></main>`;
  }
  const now = serverNow(picture);
  const chain = open && doc.job.chains.find((each) => each.uid === open);
  return html`
    <${Notice} live=${live} picture=${picture} />
    <main class=${["live", "polling", "over"].includes(link) ? "" : "stale"}>
      <${Headline} live=${live} picture=${picture} now=${now} choose=${setOpen} />
      ${picture.resource && html`<${Resource} picture=${picture} />`}
      <${Tiles} picture=${picture} now=${now} />
      <${GraphPanel} doc=${doc} now=${now} chosen=${open} choose=${setOpen} />
      <${Executors} view=${picture.executors} />
      <${Profiles} live=${live} picture=${picture} now=${now} />
      <div class="pair">
        <${Checkpoints} picture=${picture} now=${now} />
        <${Events} picture=${picture} now=${now} />
      </div>
    </main>
    ${chain && html`<${Drawer} key=${open} chain=${chain} picture=${picture} now=${now} close=${close} />`}`;
}

function Notice({ live, picture }) {
  const { link, problem, awaySince } = picture;
  if (link === "away") {
    const since = clockTime(awaySince / 1000, Date.now() / 1000);
    return html`<p class="notice" role="status"><strong>No connection since ${since}.</strong> ${problem} This is the last picture. Trying again …</p>`;
  }
  if (link === "signed-out") return html`<div class="notice"><${SignIn} live=${live} controller=${CONTROLLED} problem=${`${problem} This is the last picture.`} /></div>`;
  if (link === "over") return html`<p class="notice calm" role="status"><strong>The driver has ended.</strong> This is the last picture.</p>`;
  if (problem) return html`<p class="notice calm" role="status">${problem}</p>`;
  return null;
}
