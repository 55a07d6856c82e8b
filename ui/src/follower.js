// Opens a session, and follows a server: what the page of a job and the page of all jobs have in common.

import { Away, Refused } from "./api.js";
import { CONTROLLED, remember, remembered, takeCode } from "./session.js";

export const WAITS_MS = [1000, 2000, 4000, 8000, 15000];
export const SILENCE_MS = 45000; // three heartbeats

export const pause = (delay) => new Promise((resolve) => setTimeout(resolve, delay));

export class Follower {
  /**
   * @param {import("./api.js").Api} api
   * @param {() => void} changed called after each change of the picture
   * @param {any} picture with `link`, `problem`, `awaySince` and `write`
   * @param {string} server the word for whoever answers
   */
  constructor(api, changed, picture, server) {
    this.api = api;
    this.changed = changed;
    this.picture = picture;
    this.server = server;
    this.run = 0;
  }

  /** Open a session with the address's one-time code, or with the remembered token, and follow. */
  async open() {
    const code = takeCode();
    const old = remembered();
    // A proxy before the controller may know the viewer without a token of ours.
    if (code == null && old == null) return CONTROLLED ? this.signIn("") : this.signedOut("");
    try {
      if (code != null) {
        const session = await this.api.send("POST", "v1/sessions", { code });
        return this.enter(session);
      }
      return await this.signIn(old.token);
    } catch (error) {
      if (error instanceof Away) return this.retryOpening(code, old);
      if (old != null && code != null) return this.signIn(old.token);
      return this.signedOut(code == null ? "Your session has ended." : "This link was used before, or is older than a minute.");
    }
  }

  /** Use a token: the job's own, that of a session, or one of the cluster. */
  async signIn(token) {
    this.api.token = token;
    try {
      const session = await this.api.get("v1/session");
      this.enter({ ...session, token });
    } catch (error) {
      if (error instanceof Refused && error.status === 404) return CONTROLLED ? this.signedOut(error.message) : this.enter({ token, write: true, expiresAt: null });
      if (error instanceof Refused) return this.signedOut(token ? `The ${this.server} does not accept this token.` : "");
      this.enter({ token, write: false, expiresAt: null });
    }
  }

  retryOpening(code, old) {
    this.away(`The ${this.server} does not answer.`);
    setTimeout(() => {
      if (code != null) location.hash = `code=${code}`;
      this.open();
    }, old ? WAITS_MS[0] : WAITS_MS[1]);
  }

  enter(session) {
    this.api.token = session.token;
    remember({ token: session.token, write: Boolean(session.write), expiresAt: session.expiresAt ?? null });
    this.picture.write = Boolean(session.write);
    this.follow();
  }

  signedOut(problem) {
    this.run += 1;
    this.api.token = null;
    remember(null);
    Object.assign(this.picture, { link: "signed-out", problem, write: false });
    this.changed();
  }

  away(problem) {
    const { picture } = this;
    if (picture.link !== "away") picture.awaySince = Date.now();
    Object.assign(picture, { link: "away", problem });
    this.changed();
  }

  /**
   * Read the server's events until the session ends; after an error, again and again.
   * @param {(run: number, arrived: () => void) => Promise<boolean>} news shows what the server sends; true if it ended
   */
  async keepUp(news) {
    this.run += 1;
    const run = this.run;
    let failures = 0;
    const arrived = () => (failures = 0);
    while (run === this.run) {
      try {
        if (await news(run, arrived)) throw new Away("The stream has ended.");
      } catch (error) {
        if (run !== this.run) return;
        if (error instanceof Refused && error.status === 401) return this.signedOut("Your session has ended.");
        this.away(error instanceof Refused ? error.message : `The ${this.server} does not answer.`);
        await pause(WAITS_MS[Math.min(failures, WAITS_MS.length - 1)]);
        failures += 1;
      }
    }
  }
}
