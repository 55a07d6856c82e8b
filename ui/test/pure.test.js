import { boxes, hottest } from "../src/flame.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { ABSENT, compact, duration, eventTime, seconds, size } from "../src/format.js";
import { chosen, tally } from "../src/choose.js";
import { layout } from "../src/layout.js";
import { merge } from "../src/patch.js";
import { eventsOf } from "../src/sse.js";

test("a merge patch changes, adds and removes fields, and replaces lists, as RFC 7396 says", () => {
  const cases = [
    [{ a: "b" }, { a: "c" }, { a: "c" }],
    [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }],
    [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
    [{ a: ["b"] }, { a: "c" }, { a: "c" }],
    [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
    [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }],
    [{ a: "foo" }, null, null],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ];
  for (const [target, patch, expected] of cases) assert.deepEqual(merge(target, patch), expected);
});

test("a merge patch leaves the document before it as it was, and reaches no prototype", () => {
  const before = { a: { b: 1 } };
  const after = merge(before, JSON.parse('{"a": {"b": 2}, "__proto__": {"hacked": true}}'));

  assert.deepEqual(before, { a: { b: 1 } });
  assert.equal(after.hacked, undefined);
  assert.equal({}.hacked, undefined);
});

test("events are read from pieces that end anywhere", async () => {
  const text = ': heartbeat\n\nevent: job\r\ndata: {"a":"é"}\r\n\r\nid: 7\nevent: log\ndata: 1\ndata: 2\n\ndata: unfinished';
  const bytes = new TextEncoder().encode(text);
  for (const length of [1, 2, 7, 1000]) {
    const body = new ReadableStream({
      start(controller) {
        for (let i = 0; i < bytes.length; i += length) controller.enqueue(bytes.slice(i, i + length));
        controller.close();
      },
    });
    const found = [];
    for await (const { id, event, data } of eventsOf(body)) found.push([id, event, data]);
    assert.deepEqual(found, [["", "job", '{"a":"é"}'], ["7", "log", "1\n2"]]);
  }
});

test("no box of a graph covers another box or a label", () => {
  const boxes = [];
  const links = [];
  for (let i = 0; i < 40; i += 1) {
    boxes.push({ id: `b${i}`, width: 200, height: 60 + (i % 4) * 20 });
    for (const step of [1, 5, 9]) {
      if (i >= step && (i * step) % 3 !== 1) links.push({ id: `${i - step}-${i}`, from: `b${i - step}`, to: `b${i}`, label: { width: 90, height: 36 } });
    }
  }
  links.push({ id: "back", from: "b39", to: "b2", back: true, label: { width: 90, height: 36 } });
  for (const down of [false, true]) {
    const places = layout(boxes, links, { down });
    const all = [
      ...boxes.map((box) => ({ ...places.nodes.get(box.id), ...box })),
      ...links.map((link) => ({ ...places.edges.get(link.id), id: link.id, width: 90, height: 36 })),
    ];
    for (const [i, a] of all.entries()) {
      assert.ok(a.x - a.width / 2 >= 0 && a.x + a.width / 2 <= places.width + 1, a.id);
      for (const b of all.slice(i + 1)) {
        const apart = Math.abs(a.x - b.x) >= (a.width + b.width) / 2 - 1 || Math.abs(a.y - b.y) >= (a.height + b.height) / 2 - 1;
        assert.ok(apart, `${a.id} covers ${b.id}`);
      }
    }
  }
});

test("a loop that no link owns up to is placed", () => {
  const boxes = ["a", "b"].map((id) => ({ id, width: 10, height: 10 }));
  const places = layout(boxes, [{ id: "1", from: "a", to: "b" }, { id: "2", from: "b", to: "a" }, { id: "3", from: "a", to: "a" }]);

  assert.ok(Number.isFinite(places.width) && Number.isFinite(places.nodes.get("b").x));
});

test("numbers are written as the terminal view writes them", () => {
  assert.deepEqual([0.42, 1.34, 134, 10920, NaN, null].map(duration), ["420 ms", "1.3 s", "2m 14s", "3h 02m", "–", "–"]);
  assert.deepEqual([980, 1_234_567, 14e9].map(size), ["980 B", "1.2 MB", "14 GB"]);
  assert.deepEqual([0, 12.4, 98_234_567, 1e12].map(compact), ["0", "12", "98 M", "1.0 T"]);
  assert.deepEqual(["10s", "1m 30s", "500ms", "<img>", null].map(seconds), [10, 90, 0.5, null, null]);
});

test("the most urgent jobs come first, and a filter takes every word", () => {
  const row = (name, tone, sentence = "") => ({ namespace: "shop", name, tone, sentence, lifecycle: "STABLE" });
  const rows = [row("b", "ok"), row("a", "still"), row("d", "critical", "Behind"), row("c", "ok", "Behind by 4 min")];
  const names = (...given) => chosen(rows, ...given).map((each) => each.name);

  assert.deepEqual(names("", ""), ["d", "b", "c", "a"]);
  assert.deepEqual(names("BEHIND 4", ""), ["c"]);
  assert.deepEqual(names("", "ok"), ["b", "c"]);
  assert.deepEqual(tally(rows), [["critical", 1], ["ok", 2], ["still", 1]]);
});

test("a flame graph has a box for each call, and adds up the functions' own time", () => {
  const process = { frames: ["driver", "f", "g"], nodes: [[0, 0, 100], [1, 1, 60], [1, 2, 40], [2, 1, 30]] };

  assert.deepEqual(boxes(process).map(({ name, depth, start, millis }) => [name, depth, start, millis]), [
    ["driver", 0, 0, 100],
    ["f", 1, 0, 60],
    ["f", 2, 0, 40],
    ["g", 1, 60, 30],
  ]);
  assert.deepEqual(hottest(process), [["f", 60], ["g", 30], ["driver", 10]]);
});

test("a watermark before 1970 is shown as its time, and none as a dash", () => {
  assert.equal(eventTime(-14182940000), "1969-07-20 20:17:40");
  assert.equal(eventTime(0), "1970-01-01 00:00:00");
  assert.equal(eventTime(-4611686018427387), ABSENT);
  assert.equal(eventTime(null), ABSENT);
  assert.equal(eventTime(253370764800000), "end of input");
});
