// Follows the job: a session, the past, then the stream; and keeps the last picture while the driver is away.

import { Away, Refused } from "./api.js";
import { TERMINAL, clockOf } from "./derive.js";
import { Follower, SILENCE_MS, pause } from "./follower.js";
import { merge } from "./patch.js";
import { BASE, CONTROLLED } from "./session.js";
import { eventsOf } from "./sse.js";

const KEPT_SECONDS = 3600; // of figures, as the driver keeps them
const KEPT_EVENTS = 500;
const KEPT_DETAILS = 60;
const POLL_MS = 2000;
const EXECUTORS_MS = 10000;
const RESOURCE_MS = 5000;

/**
 * @typedef {object} Picture all that the page shows
 * @property {"opening" | "signed-out" | "live" | "polling" | "away" | "over"} link
 * @property {string} problem why it is not live, in words
 * @property {number | null} awaySince ms since 1970
 * @property {boolean} write whether the session may change the job
 * @property {any} doc the driver's last document
 * @property {number} receivedAt ms since 1970, when the time in it arrived
 * @property {any[]} points figures of the last hour, oldest first
 * @property {any[] | null} events newest first; null if this driver does not offer them
 * @property {boolean} hasHistory whether this driver offers figures of the past
 * @property {any} executors those of a job that computes in processes of their own
 * @property {any} resource the job as the controller knows it; null if the page is the driver's own
 * @property {number} resourceAt ms since 1970, when that arrived
 * @property {any[] | null} profiles the latest, newest first; null if this driver does not offer them
 * @property {Map<number, any>} details ended checkpoints with the parts of their chains
 */

/** @returns {Picture} */
export function blank() {
  return {
    link: "opening",
    problem: "",
    awaySince: null,
    write: false,
    doc: null,
    receivedAt: 0,
    points: [],
    events: [],
    hasHistory: true,
    details: new Map(),
    executors: null,
    profiles: null,
    resource: null,
    resourceAt: 0,
  };
}

export class Live extends Follower {
  /**
   * @param {import("./api.js").Api} api
   * @param {() => void} changed called after each change of the picture
   */
  constructor(api, changed) {
    super(api, changed, blank(), "driver");
    this.lastEvent = "";
  }

  away(problem) {
    const { picture } = this;
    if (picture.link === "over") return;
    if (TERMINAL.has(picture.doc?.job.state)) {
      picture.link = "over"; // a driver ends with its job
      return this.changed();
    }
    super.away(problem);
  }

  follow() {
    const kept = this.keepUp(async (run, arrived) => {
      await this.#past();
      return this.#news(run, arrived);
    });
    this.#watchExecutors(this.run);
    if (CONTROLLED) this.#watchResource(this.run);
    return kept;
  }

  /** Another process answers: its events, figures and checkpoints have nothing to do with those of the last one. */
  async #begin() {
    this.lastEvent = "";
    this.picture.points = [];
    this.picture.details = new Map();
    await this.#past();
  }

  /** Show what the driver sends, or else ask for it; return whether a stream has ended. */
  async #news(run, arrived) {
    try {
      return await this.#stream(run, arrived);
    } catch (error) {
      if (!(error instanceof Refused) || ![404, 405, 429].includes(error.status)) throw error;
      await this.#poll(run, error.status === 429 ? "Too many pages follow this job: this one asks every two seconds." : "", arrived);
      return false;
    }
  }

  /** Fetch what was before this page was opened, or while the driver was away. */
  async #past() {
    const { picture } = this;
    const since = picture.points.at(-1)?.at;
    const [history, events] = await Promise.all([
      this.#optional(`v1/history${since ? `?since=${since}` : ""}`),
      this.#optional("v1/events"),
    ]);
    picture.hasHistory = history != null;
    for (const point of history?.points ?? []) this.#point(point);
    picture.events = events == null ? null : [];
    for (const event of [...(events?.events ?? [])].reverse()) this.#event(event);
    await this.#profiles();
  }

  async #profiles() {
    this.picture.profiles = (await this.#optional("v1/profiles"))?.profiles ?? null;
    this.changed();
  }

  /** @returns {Promise<any>} a profile with its stacks. Raises Refused, Away. */
  profile(id) {
    return this.api.get(`v1/profiles/${encodeURIComponent(id)}`);
  }

  /**
   * Open Spark's own page. The new tab shares nothing with this one: Spark's scripts must not find the session.
   * @param {(words: string) => void} say
   */
  async openSpark(say) {
    try {
      const { path } = await this.api.send("POST", "v1/spark-page", { base: BASE });
      window.open(path, "_blank", "noopener,noreferrer");
      say("");
    } catch (error) {
      say(error instanceof Refused ? [error.message, error.fix].filter(Boolean).join(". ") : "The driver does not answer");
    }
  }

  /**
   * Have the driver record a profile.
   * @param {(words: string, bad?: boolean) => void} say
   */
  async record(seconds, say) {
    try {
      await this.api.send("POST", "v1/profiles", { seconds });
      say(`Recording a profile of ${seconds} seconds …`);
      await this.#profiles();
    } catch (error) {
      if (error instanceof Refused) return say([error.message, error.fix].filter(Boolean).join(". "), true);
      say("The driver does not answer", true);
    }
  }

  async #optional(path) {
    try {
      return await this.api.get(path);
    } catch (error) {
      if (error instanceof Refused && (error.status === 404 || error.status === 405)) return null;
      throw error;
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
      const body = await this.api.stream(this.lastEvent, abort.signal);
      for await (const { id, event, data } of eventsOf(body, alive)) {
        if (run !== this.run) return false;
        arrived();
        if (event === "log") {
          if (id) this.lastEvent = id;
          const happened = JSON.parse(data);
          this.#event(happened);
          if (happened.details?.profile) this.#profiles().catch(() => undefined); // the stream says if the driver is away
        } else if (event === "bye") {
          this.picture.link = "over";
          this.changed();
          return true; // another driver may follow at the same address
        } else if (event === "job") {
          const document = JSON.parse(data);
          if (this.picture.doc && document.job.startTime !== this.picture.doc.job.startTime) await this.#begin();
          this.#document(document);
        } else if (event === "patch" && this.picture.doc != null) {
          this.#document(merge(this.picture.doc, JSON.parse(data)));
        }
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

  /** For a driver without a stream, or with too many pages: for half a minute, until the stream is tried again. */
  async #poll(run, why, arrived) {
    const tries = why ? 15 : Infinity;
    for (let i = 0; i < tries; i += 1) {
      if (i % 5 === 4) await this.#past();
      const job = await this.api.get("v1/job?include=checkpoints,checkpointing");
      const diagnosis = await this.#optional("v1/diagnosis");
      if (run !== this.run) return;
      arrived();
      const { checkpoints, checkpointing, ...rest } = job;
      this.#document({ job: rest, checkpoints, checkpointing, diagnosis, point: pointOf(rest) }, "polling");
      this.picture.problem = why;
      await pause(POLL_MS);
    }
  }

  #document(doc, link = "live") {
    const { picture } = this;
    if (picture.doc == null || clockOf(picture.doc) !== clockOf(doc)) picture.receivedAt = Date.now();
    Object.assign(picture, { doc, link, problem: "", awaySince: null });
    if (doc.point) this.#point(doc.point);
    this.#fetchDetails();
    this.changed();
  }

  #point(point) {
    const { points } = this.picture;
    if (points.length && point.at <= points.at(-1).at) return;
    points.push(point);
    const oldest = point.at - KEPT_SECONDS;
    let old = 0;
    while (points[old].at < oldest) old += 1;
    if (old) points.splice(0, old);
  }

  #event(event) {
    const { events } = this.picture;
    if (events == null || events.some((each) => each.id === event.id && each.at === event.at)) return;
    events.unshift(event);
    if (events.length > KEPT_EVENTS) events.length = KEPT_EVENTS;
    this.changed();
  }

  /** Executors are not in the stream: ask now and then, if the job has any. */
  async #watchExecutors(run) {
    while (run === this.run) {
      try {
        this.picture.executors = await this.#optional("v1/executors");
        this.changed();
        if (!this.picture.executors?.wanted) return;
      } catch {
        // The stream says that the driver is away.
      }
      await pause(EXECUTORS_MS);
    }
  }

  /** The controller's knowledge of the job is not in the stream, which is the driver's. */
  async #watchResource(run) {
    while (run === this.run) {
      try {
        this.picture.resource = await this.#optional("v1/resource");
        this.picture.resourceAt = Date.now();
        this.changed();
      } catch (error) {
        if (run === this.run && error instanceof Refused && error.status === 401) return this.signedOut("Your session has ended.");
      }
      await pause(RESOURCE_MS);
    }
  }

  /**
   * Have the controller change the job.
   * @param {(words: string, bad?: boolean) => void} say
   */
  async change(path, body, say) {
    try {
      say("Requested …");
      say((await this.api.send("POST", path, body)).sentence);
    } catch (error) {
      if (error instanceof Refused) return say([error.message, error.fix].filter(Boolean).join(". "), true);
      say("The controller does not answer: look whether the change was made", true);
    }
  }

  /** The statistics' history is without the chains' parts: fetch those once, newest first, one at a time. */
  async #fetchDetails() {
    const { details, doc } = this.picture;
    if (this.fetching) return;
    this.fetching = true;
    try {
      for (const each of doc.checkpoints?.history ?? []) {
        if (each.status === "IN_PROGRESS" || details.has(each.id)) continue;
        details.set(each.id, await this.#optional(`v1/checkpoints/${each.id}`));
        while (details.size > KEPT_DETAILS) details.delete(details.keys().next().value);
        this.changed();
      }
    } catch {
      // The stream says that the driver is away.
    } finally {
      this.fetching = false;
    }
  }

  /**
   * Ask the driver to do something, and wait for the outcome.
   * @param {(words: string, bad?: boolean) => void} say
   */
  async request(path, body, name, say) {
    try {
      say(`${name} requested …`);
      const { triggerId } = await this.api.send("POST", path, body);
      for (;;) {
        const view = await this.api.get(`v1/triggers/${encodeURIComponent(triggerId)}`);
        if (view.state === "COMPLETED") {
          const number = view.checkpoint ?? null;
          const done = number == null ? `${name} done` : view.kind === "stop" ? `Stopped with snapshot ${number}` : `${name} ${number} done`;
          return say(view.result ? `${done}: ${view.result}` : done);
        }
        if (view.state === "FAILED") return say(`${name} failed: ${view.failure ?? "no reason given"}`, true);
        await pause(1000);
      }
    } catch (error) {
      if (error instanceof Refused && error.status === 403) this.picture.write = false;
      if (error instanceof Refused) return say([error.message, error.fix].filter(Boolean).join(". "), true);
      say(`${name} was requested; the driver no longer answers`, true);
    }
  }
}

/** The figures of a moment, from the job itself. */
function pointOf(job) {
  const sources = job.chains.flatMap((chain) => chain.inputs.filter((input) => input.chain == null));
  const records = sources.map((input) => input.lagRecords).filter((each) => each != null);
  const seconds = sources.map((input) => input.lagSeconds ?? null).filter((each) => each != null);
  const batches = job.chains.map((chain) => chain.lastBatchMs).filter((each) => each != null);
  const at = job.startTime + job.uptime;
  const chains = job.chains.map((chain) => [
    chain.uid,
    { busy: chain.busy ?? null, backpressured: chain.backpressured, rowsPerSecond: chain.recordsInPerSecond },
  ]);
  return {
    at,
    lagRecords: records.length ? records.reduce((sum, each) => sum + each, 0) : null,
    lagSeconds: seconds.length ? Math.max(...seconds) : null,
    rowsPerSecond: job.recordsInPerSecond,
    batchSeconds: batches.length ? Math.max(...batches) / 1000 : null,
    checkpointAgeSeconds: job.lastCheckpoint ? at - job.lastCheckpoint.completed : null,
    chains: Object.fromEntries(chains),
  };
}
