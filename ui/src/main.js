import { render } from "preact";
import { Api } from "./api.js";
import { html } from "./html.js";
import { Live } from "./live.js";
import { Page } from "./view/page.js";

const root = document.getElementById("page");
root.textContent = "";

let drawing = false;
function draw() {
  if (drawing) return;
  drawing = true;
  // Not requestAnimationFrame: a page in the background must not pile up work, nor show an old picture when it is back.
  setTimeout(() => {
    drawing = false;
    render(html`<${Page} live=${live} picture=${live.picture} />`, root);
  }, 0);
}

const live = new Live(new Api(), draw);
draw();
live.open();
setInterval(draw, 1000); // ages grow without news
