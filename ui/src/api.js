// Requests to the control API. All addresses are relative to `…/ui/`, so that any prefix of a proxy works.

/** An answer that is not what the page asked for. */
export class Refused extends Error {
  /** @param {number} status @param {string} title @param {string} fix */
  constructor(status, title, fix = "") {
    super(title);
    this.status = status;
    this.fix = fix;
  }
}

/** No answer at all: the driver, or the way to it, is away. */
export class Away extends Error {}

const ANSWER_MS = 15000;

export class Api {
  constructor() {
    /** @type {string | null} */
    this.token = null;
  }

  /** @returns {Promise<any>} the JSON answer. Raises Refused, Away. */
  async get(path) {
    return this.#json(await this.#fetch(path, { signal: AbortSignal.timeout(ANSWER_MS) }));
  }

  /** @returns {Promise<any>} the JSON answer. Raises Refused, Away. */
  async send(method, path, body) {
    const request = { method, body: JSON.stringify(body), signal: AbortSignal.timeout(ANSWER_MS) };
    return this.#json(await this.#fetch(path, request));
  }

  /** @returns {Promise<ReadableStream<Uint8Array>>} the events of `/v1/stream`. Raises Refused, Away. */
  async stream(last, signal) {
    const headers = { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) };
    const answer = await this.#fetch("v1/stream", { headers, signal });
    if (!(answer.headers.get("Content-Type") ?? "").startsWith("text/event-stream") || !answer.body) {
      throw new Refused(404, "there is no stream here");
    }
    return answer.body;
  }

  async #fetch(path, request) {
    const headers = { Accept: "application/json", ...request.headers };
    if (request.body) headers["Content-Type"] = "application/json";
    // A proxy may need `Authorization` for itself: the API server's does.
    if (this.token) headers["X-Streamjob-Token"] = this.token;
    let answer;
    try {
      answer = await fetch(`../${path}`, { ...request, headers, cache: "no-store", credentials: "same-origin" });
    } catch (error) {
      throw new Away(String(error));
    }
    // A proxy's own words for a driver that is not there.
    if ([502, 503, 504].includes(answer.status)) throw new Away(`the proxy answers ${answer.status}`);
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }

  async #json(answer) {
    try {
      return await answer.json();
    } catch (error) {
      throw new Away(String(error));
    }
  }
}

async function refusal(answer) {
  try {
    const problem = await answer.json();
    const detail = [problem.title, problem.detail].filter(Boolean).join(": ");
    return new Refused(answer.status, detail || `status ${answer.status}`, problem.fix ?? "");
  } catch {
    return new Refused(answer.status, `status ${answer.status}`);
  }
}
