import { render } from "preact";
import { Api } from "./api.js";
import { html } from "./html.js";
import { LiveJobs } from "./jobs.js";
import { Live } from "./live.js";
import { Jobs } from "./view/jobs.js";
import { Page } from "./view/page.js";

const root = document.getElementById("page");
root.textContent = "";
const [Follows, Shows] = root.dataset.view === "jobs" ? [LiveJobs, Jobs] : [Live, Page];

let drawing = false;
function draw() {
  if (drawing) return;
  drawing = true;
  // Not requestAnimationFrame: a page in the background must not pile up work, nor show an old picture when it is back.
  setTimeout(() => {
    drawing = false;
    render(html`<${Shows} live=${live} picture=${live.picture} />`, root);
  }, 0);
}

const live = new Follows(new Api(), draw);
draw();
live.open();
setInterval(draw, 1000); // ages grow without news
