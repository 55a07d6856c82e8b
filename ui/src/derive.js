// Derives the content of the views from the driver's document: pure functions.

import { seconds } from "./format.js";

/** The driver's clock now, in seconds since 1970, however wrong the reader's clock is. */
export function serverNow(picture, nowMs = Date.now()) {
  const { doc, receivedAt, link } = picture;
  if (!doc) return nowMs / 1000;
  const at = clockOf(doc);
  // While the driver is away nothing is known of what it does: its clock stands, only the page's notice counts.
  return link === "over" ? at : at + Math.max(0, nowMs - receivedAt) / 1000;
}

/** The moment of a document, in seconds since 1970 by the driver's clock. */
export const clockOf = (doc) => Math.max(doc.job.startTime + doc.job.uptime, doc.point?.at ?? 0);

/** Seconds between periodic checkpoints, or null. */
export const interval = (doc) => seconds(doc?.checkpointing?.interval ?? null);

/** Seconds since the last checkpoint was completed; null without one. */
export function checkpointAge(doc, now) {
  const last = doc.job.lastCheckpoint;
  return last ? Math.max(0, now - last.completed) : null;
}

/** `calm`, `warm` or `hot`: how alarming the age of a checkpoint is. */
export function ageTone(age, every, state) {
  if (age == null || !every || !["RUNNING", "FINISHING"].includes(state)) return "calm";
  return age > 4 * every ? "hot" : age > 2 * every ? "warm" : "calm";
}

/** How full of work something is. A chain that always finds input is always busy: that alone is no trouble. */
export const busyTone = (share) => (share == null ? "unknown" : share >= 0.8 ? "full" : share >= 0.5 ? "half" : "calm");

/** The chains that the picture points at, with a severity each: that of the first reason, and those of critical ones. */
export function troubled(doc) {
  const found = new Map();
  (doc.diagnosis?.reasons ?? []).forEach(({ chain, severity }, i) => {
    if (chain && !found.has(chain) && (i === 0 ? severity !== "ok" : severity === "critical")) found.set(chain, severity ?? doc.diagnosis.severity);
  });
  return found;
}

/** A chain is backpressured when it waits for more than a fifth of the time. */
export const waits = (chain) => chain.backpressured >= 0.2;

/** The value below which a share of all lies. */
export function quantile(values, share) {
  if (!values.length) return null;
  const ordered = [...values].sort((a, b) => a - b);
  return ordered[Math.min(ordered.length - 1, Math.floor(share * ordered.length))];
}

/** The inputs of a chain that are sources. */
export const sourcesOf = (chain) => chain.inputs.filter((input) => input.chain == null);

/** Lag of the whole job: rows of all sources, seconds of the worst. */
export function jobLag(doc) {
  return { records: doc.point?.lagRecords ?? null, seconds: doc.point?.lagSeconds ?? null };
}

/** Seconds of event time that the slowest source is behind the clock; null if that says nothing. */
export function eventLag(doc) {
  const lags = doc.job.chains.flatMap(sourcesOf).filter((input) => !input.ended).map((input) => input.lagMs ?? null);
  const known = lags.filter((each) => each != null && each < 86400000);
  return known.length ? Math.max(...known) / 1000 : null;
}

/** A part of the graph by uid: its name, kind, format, query. */
export function partsOf(job) {
  const parts = new Map();
  for (const kind of ["sources", "operators", "sinks"]) {
    for (const part of job.graph?.[kind] ?? []) parts.set(part.uid, { ...part, kind: kind.slice(0, -1) });
  }
  return parts;
}

/** Where a source reads, as far as its options say. */
export function placeOf(part) {
  const options = part?.options ?? {};
  const names = ["subscribe", "subscribePattern", "topic", "path", "table", "dbtable"];
  const found = names.map((name) => options[name]).find(Boolean);
  return found ?? "";
}

const STATES = {
  CREATED: ["Starting", "busy"],
  RESTORING: ["Restoring", "busy"],
  RUNNING: ["Running", "good"],
  FINISHING: ["Finishing", "busy"],
  FINISHED: ["Finished", "still"],
  STOPPING: ["Stopping", "busy"],
  STOPPED: ["Stopped", "still"],
  RESTARTING: ["Restarting", "bad"],
  FAILED: ["Failed", "bad"],
  SUPERSEDED: ["Superseded", "bad"],
};

/** The word for a state, and its tone. */
export const stateOf = (state) => STATES[state] ?? [String(state), "still"];

export const TERMINAL = new Set(["FINISHED", "STOPPED", "FAILED", "SUPERSEDED"]);

/** A sentence for drivers that give none. */
export function ownDiagnosis(job) {
  if (job.failure && ["FAILED", "RESTARTING"].includes(job.state)) return { severity: "critical", sentence: job.failure.split("\n")[0], reasons: [] };
  const severity = stateOf(job.state)[1] === "bad" ? "critical" : "ok";
  return { severity, sentence: `The job is ${stateOf(job.state)[0].toLowerCase()}.`, reasons: [] };
}
