// Follows all jobs that the viewer may read, and keeps the last picture while the controller is away.

import { Away, Refused } from "./api.js";
import { Follower, SILENCE_MS, pause } from "./follower.js";
import { merge } from "./patch.js";
import { eventsOf } from "./sse.js";

const POLL_MS = 5000;

export class LiveJobs extends Follower {
  /**
   * @param {import("./api.js").Api} api
   * @param {() => void} changed called after each change of the picture
   */
  constructor(api, changed) {
    super(api, changed, { link: "opening", problem: "", awaySince: null, write: false, view: null, receivedAt: 0 }, "controller");
  }

  follow() {
    return this.keepUp((run, arrived) => this.#news(run, arrived));
  }

  async #news(run, arrived) {
    try {
      return await this.#stream(run, arrived);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 429) throw error;
      this.#show(await this.api.get("v1/jobs"), "polling", "Too many pages are open: this one asks every five seconds.");
      arrived();
      await pause(POLL_MS);
      return false;
    }
  }

  async #stream(run, arrived) {
    const abort = new AbortController();
    let timer = 0;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), SILENCE_MS);
    };
    alive();
    try {
      const body = await this.api.stream("", abort.signal);
      for await (const { event, data } of eventsOf(body, alive)) {
        if (run !== this.run) return false;
        arrived();
        if (event === "jobs") this.#show(JSON.parse(data));
        else if (event === "patch" && this.picture.view != null) this.#show(merge(this.picture.view, JSON.parse(data)));
      }
    } catch (error) {
      if (error instanceof Refused) throw error;
      throw new Away(String(error));
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
    return true;
  }

  #show(view, link = "live", problem = "") {
    Object.assign(this.picture, { view, link, problem, awaySince: null, receivedAt: Date.now() });
    this.changed();
  }
}
