// The session's token: in memory, and in this tab's sessionStorage, so that a reload keeps it. Never in a URL or cookie.

const JOB = /jobs\/[^/]+\/[^/]+\/ui\/$/;
const place = new URL(".", location.href).pathname;

/** Whether the page is the controller's, or that of a job through the controller. */
export const CONTROLLED = JOB.test(place) || document.getElementById("page")?.dataset.view === "jobs";

/** The path of a proxy before those of the driver, without a slash at its end. */
export const BASE = place.replace(/\/ui\/$/, "");

// The page of all jobs and those that it leads to have one session.
const KEY = `streamjob ${place.replace(JOB, "ui/")}`;

/**
 * @typedef {{token: string, write: boolean, expiresAt: number | null}} Session
 */

/** Return the one-time code of the address, and remove it from the address and the history. */
export function takeCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code != null) history.replaceState(null, "", location.pathname + location.search);
  return code || null;
}

/** @returns {Session | null} */
export function remembered() {
  try {
    const session = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    return session && typeof session.token === "string" ? session : null;
  } catch {
    return null;
  }
}

/** @param {Session | null} session */
export function remember(session) {
  try {
    if (session) sessionStorage.setItem(KEY, JSON.stringify(session));
    else sessionStorage.removeItem(KEY);
  } catch {
    // Storage may be forbidden: the session then lasts until the page is reloaded.
  }
}
