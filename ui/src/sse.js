/**
 * Reads server-sent events from the body of an answer to fetch, which unlike EventSource can send a header.
 * @param {ReadableStream<Uint8Array>} body
 * @param {() => void} alive called for each piece that arrives, heartbeats included
 * @returns {AsyncGenerator<{id: string, event: string, data: string}>}
 */
export async function* eventsOf(body, alive = () => {}) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let id = "";
  let event = "message";
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines.map((each) => each.replace(/\r$/, ""))) {
        if (line === "") {
          if (data.length) yield { id, event, data: data.join("\n") };
          event = "message";
          data = [];
          continue;
        }
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "data") data.push(text);
        else if (field === "event") event = text;
        else if (field === "id") id = text;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
