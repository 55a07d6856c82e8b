// The picture of the job: nodes with their sizes, edges, and their places.

import { partsOf } from "./derive.js";
import { layout } from "./layout.js";

export const CHAIN_WIDTH = 228;
export const END_WIDTH = 196;
const LABEL = { width: 96, height: 36 };
const HEAD = 78;
const LINE = 18;
const MOST_OPERATORS = 4;

/**
 * @typedef {{id: string, kind: "source" | "chain" | "sink" | "planned", uid: string, width: number, height: number,
 *   operators: string[], hidden: number, data: any, part: any}} Node
 * @typedef {{id: string, from: string, to: string, channel: any}} Edge
 */

/** @returns {{nodes: Node[], edges: Edge[]}} */
export function graphOf(job) {
  const parts = partsOf(job);
  return job.chains.length ? running(job, parts) : planned(job, parts);
}

function running(job, parts) {
  const nodes = [];
  const edges = [];
  const sinks = new Map(job.sinks.map((sink) => [sink.uid, sink]));
  for (const chain of job.chains) {
    const sources = chain.inputs.filter((input) => input.chain == null);
    const ends = chain.operators.filter((uid) => sinks.has(uid));
    const outside = new Set([...sources.map((input) => input.uid), ...ends]);
    nodes.push(chainNode(chain, chain.operators.filter((uid) => !outside.has(uid)), parts));
    for (const input of sources) {
      nodes.push(end("source", input.uid, input, parts));
      edges.push(edge(`source:${input.uid}`, `chain:${chain.uid}`));
    }
    for (const uid of ends) {
      nodes.push(end("sink", uid, sinks.get(uid), parts));
      edges.push(edge(`chain:${chain.uid}`, `sink:${uid}`));
    }
  }
  for (const channel of job.channels) edges.push(edge(`chain:${channel.from}`, `chain:${channel.to}`, channel));
  return { nodes, edges: edges.filter(known(nodes)) };
}

/** Before the job runs there are no chains: the operators of the job file stand for themselves. */
function planned(job, parts) {
  const byName = new Map();
  const nodes = [];
  for (const part of parts.values()) {
    const kind = part.kind === "operator" ? "planned" : part.kind;
    const sink = kind === "sink" ? job.sinks.find((each) => each.uid === part.uid) : null;
    nodes.push(end(kind, part.uid, sink ?? null, parts));
    if (kind !== "sink") byName.set(part.name, `${kind}:${part.uid}`);
  }
  const edges = [];
  for (const part of parts.values()) {
    const inputs = part.kind === "sink" ? [part.input] : (part.inputs ?? []).map((each) => each.from);
    const to = `${part.kind === "operator" ? "planned" : part.kind}:${part.uid}`;
    for (const name of inputs) if (byName.has(name)) edges.push(edge(byName.get(name), to));
  }
  return { nodes, edges: edges.filter(known(nodes)) };
}

const known = (nodes) => {
  const ids = new Set(nodes.map((node) => node.id));
  return ({ from, to }) => ids.has(from) && ids.has(to);
};

function chainNode(chain, operators, parts) {
  const shown = operators.slice(0, operators.length > MOST_OPERATORS ? MOST_OPERATORS - 1 : MOST_OPERATORS);
  const hidden = operators.length - shown.length;
  const height = HEAD + (shown.length + (hidden ? 1 : 0)) * LINE + (operators.length ? 10 : 0);
  return { id: `chain:${chain.uid}`, kind: "chain", uid: chain.uid, width: CHAIN_WIDTH, height, operators: shown, hidden, data: chain, part: parts.get(chain.uid) };
}

function end(kind, uid, data, parts) {
  const height = kind === "planned" ? 44 : 74;
  return { id: `${kind}:${uid}`, kind, uid, width: END_WIDTH, height, operators: [], hidden: 0, data, part: parts.get(uid) };
}

const edge = (from, to, channel = null) => ({ id: `${from} ${to}`, from, to, channel });

/** The input of the layout: figures may change without a new layout. */
const shape = ({ nodes, edges }, direction) =>
  JSON.stringify([direction, nodes.map((node) => [node.id, node.width, node.height]), edges.map((each) => [each.id, !each.channel])]);

let last = { shape: "", places: null };

/**
 * Place nodes and edges; the places of an unchanged graph are kept.
 * @param {{nodes: Node[], edges: Edge[]}} graph
 * @param {"LR" | "TB"} direction
 */
export function place(graph, direction) {
  const wanted = shape(graph, direction);
  if (last.shape === wanted) return last.places;
  const links = graph.edges.map((each) => ({ ...each, back: each.channel?.feedback, label: each.channel ? LABEL : undefined }));
  const places = layout(graph.nodes, links, { down: direction === "TB" });
  last = { shape: wanted, places };
  return places;
}

/** A line that leaves and enters its boxes along the flow. */
export function line(points, direction) {
  let path = `M${xy(points[0])}`;
  for (let i = 1; i < points.length; i += 1) {
    const [a, b] = [points[i - 1], points[i]];
    if (Math.abs(a.x - b.x) < 0.5 || Math.abs(a.y - b.y) < 0.5) path += `L${xy(b)}`;
    else if (direction === "LR") path += `C${xy({ x: (a.x + b.x) / 2, y: a.y })} ${xy({ x: (a.x + b.x) / 2, y: b.y })} ${xy(b)}`;
    else path += `C${xy({ x: a.x, y: (a.y + b.y) / 2 })} ${xy({ x: b.x, y: (a.y + b.y) / 2 })} ${xy(b)}`;
  }
  return path;
}

const xy = ({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`;
