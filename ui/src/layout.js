// A layered layout: nodes in layers along the flow, few crossings, and lines as straight as they can be. Labels of edges
// are nodes of layers in between, so that nothing covers them.

const SWEEPS = 12;

/**
 * @typedef {{id: string, width: number, height: number}} Box
 * @typedef {{id: string, from: string, to: string, back?: boolean, label?: {width: number, height: number}}} Link
 * @typedef {{x: number, y: number}} Point
 */

/**
 * Return the centres of boxes and labels, the lines of links, and the size of the picture.
 * @param {Box[]} boxes
 * @param {Link[]} links `back` for those that close a loop
 * @param {{down?: boolean, gap?: number, between?: number}} how whether layers run downwards, the least space between
 *   layers, and between boxes of a layer
 */
export function layout(boxes, links, { down = false, gap = 18, between = 20 } = {}) {
  const along = down ? "height" : "width";
  const across = down ? "width" : "height";
  const ranks = ranked(boxes, links);
  const nodes = new Map(boxes.map((box) => [box.id, { id: box.id, rank: ranks.get(box.id), along: box[along], across: box[across], before: [], after: [], at: 0 }]));
  const threads = new Map();
  for (const link of links) threads.set(link.id, threaded(link, nodes, along, across));
  const layers = ordered(layersOf(nodes));
  straighten(layers, between);

  const lowest = Math.min(...[...nodes.values()].map((node) => node.at - node.across / 2));
  let place = 0;
  let breadth = 0;
  for (const layer of layers) {
    const depth = Math.max(0, ...layer.map((node) => node.along));
    for (const node of layer) {
      node.at -= lowest - 4;
      node.place = place + depth / 2;
      breadth = Math.max(breadth, node.at + node.across / 2);
    }
    for (const node of layer) Object.assign(node, { start: place, end: place + depth });
    place += depth + gap;
  }
  const xy = (alongAt, acrossAt) => (down ? { x: acrossAt, y: alongAt + 4 } : { x: alongAt + 4, y: acrossAt });
  const centres = new Map(boxes.map(({ id }) => [id, xy(nodes.get(id).place, nodes.get(id).at)]));
  const lines = new Map(links.map((link) => [link.id, lined(threads.get(link.id), xy)]));
  const size = xy(place - gap + 4, breadth + 4);
  return { nodes: centres, edges: lines, width: size.x, height: size.y };
}

/** Even layers for boxes: each after those that it reads, and close to those that read it. */
function ranked(boxes, links) {
  const forward = links.filter((link) => !link.back && link.from !== link.to);
  const into = new Map(boxes.map(({ id }) => [id, []]));
  const out = new Map(boxes.map(({ id }) => [id, []]));
  for (const { from, to } of forward) {
    into.get(to).push(from);
    out.get(from).push(to);
  }
  const ranks = new Map();
  const under = new Set();
  const rank = (id) => {
    if (ranks.has(id)) return ranks.get(id);
    if (under.has(id)) return 0; // a loop that no link owns up to
    under.add(id);
    const found = Math.max(0, ...into.get(id).map((each) => rank(each) + 2));
    ranks.set(id, found);
    return found;
  };
  for (const { id } of boxes) rank(id);
  for (const { id } of boxes) {
    if (!into.get(id).length && out.get(id).length) ranks.set(id, Math.max(0, Math.min(...out.get(id).map((each) => ranks.get(each))) - 2));
  }
  const first = Math.min(...ranks.values());
  for (const [id, each] of ranks) ranks.set(id, each - first);
  return ranks;
}

/** A link as a thread of neighbours through all layers between its ends, one of which holds its label. */
function threaded(link, nodes, along, across) {
  const ends = [nodes.get(link.from), nodes.get(link.to)];
  const turned = ends[0].rank > ends[1].rank;
  const [first, last] = turned ? [ends[1], ends[0]] : ends;
  const thread = [first];
  const labelled = turned ? first.rank + 1 : last.rank - 1;
  for (let rank = first.rank + 1; rank < last.rank; rank += 1) {
    const label = link.label && rank === labelled ? link.label : null;
    const node = { id: `${link.id} ${rank}`, rank, along: label?.[along] ?? 0, across: label?.[across] ?? 2, before: [], after: [], at: 0, thread: true, label: Boolean(label) };
    nodes.set(node.id, node);
    thread.push(node);
  }
  thread.push(last);
  for (let i = 1; i < thread.length; i += 1) {
    thread[i - 1].after.push(thread[i]);
    thread[i].before.push(thread[i - 1]);
  }
  return turned ? thread.reverse() : thread;
}

function layersOf(nodes) {
  const layers = [];
  for (const node of nodes.values()) (layers[node.rank] ??= []).push(node);
  for (let rank = 0; rank < layers.length; rank += 1) layers[rank] ??= [];
  return layers;
}

/** Order each layer by the mean place of its neighbours, up and down, and keep the order with the fewest crossings. */
function ordered(layers) {
  let best = layers.map((layer) => [...layer]);
  let fewest = Infinity;
  for (let sweep = 0; sweep <= SWEEPS; sweep += 1) {
    number(layers);
    const crossed = crossings(layers);
    if (crossed < fewest) {
      fewest = crossed;
      best = layers.map((layer) => [...layer]);
    }
    if (!crossed) break;
    const forward = sweep % 2 === 0;
    for (const layer of forward ? layers.slice(1) : layers.slice(0, -1).reverse()) {
      const side = forward ? "before" : "after";
      const wanted = new Map(layer.map((node) => [node, node[side].length ? mean(node[side].map((each) => each.order)) : node.order]));
      layer.sort((a, b) => wanted.get(a) - wanted.get(b) || a.order - b.order);
      number([layer]);
    }
  }
  number(best);
  return best;
}

const number = (layers) => layers.forEach((layer) => layer.forEach((node, i) => (node.order = i)));
const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;

function crossings(layers) {
  let found = 0;
  for (const layer of layers) {
    const pairs = layer.flatMap((node) => node.after.map((each) => [node.order, each.order]));
    for (let i = 0; i < pairs.length; i += 1) {
      for (let j = i + 1; j < pairs.length; j += 1) if ((pairs[i][0] - pairs[j][0]) * (pairs[i][1] - pairs[j][1]) < 0) found += 1;
    }
  }
  return found;
}

/** Move nodes towards their neighbours without changing the order in a layer. */
function straighten(layers, between) {
  for (const layer of layers) spread(layer, layer.map(() => 0), between);
  for (let sweep = 0; sweep < 3 * SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    const closer = sweep < 2 * SWEEPS ? 0.93 : 1; // towards the middle, so that no room is left empty
    for (const layer of forward ? layers : [...layers].reverse()) {
      const wanted = layer.map((node) => {
        const [one, other] = forward ? [node.before, node.after] : [node.after, node.before];
        const seen = sweep >= SWEEPS ? [...node.before, ...node.after] : one.length ? one : other;
        return closer * (seen.length ? mean(seen.map((each) => each.at)) : node.at);
      });
      spread(layer, wanted, between);
    }
  }
}

/** Place a layer as close to the wanted places as its order and spaces allow: isotonic regression by pooling. */
function spread(layer, wanted, between) {
  let offset = 0;
  const offsets = layer.map((node, i) => {
    if (i) offset += (layer[i - 1].across + node.across) / 2 + (node.thread && layer[i - 1].thread ? between / 2 : between);
    return offset;
  });
  const pools = [];
  layer.forEach((node, i) => {
    const weight = node.thread ? 4 : 1;
    pools.push({ sum: (wanted[i] - offsets[i]) * weight, weight, count: 1 });
    while (pools.length > 1 && pools.at(-2).sum / pools.at(-2).weight > pools.at(-1).sum / pools.at(-1).weight) {
      const pool = pools.pop();
      const previous = pools.at(-1);
      previous.sum += pool.sum;
      previous.weight += pool.weight;
      previous.count += pool.count;
    }
  });
  let i = 0;
  for (const { sum, weight, count } of pools) {
    for (let each = 0; each < count; each += 1, i += 1) layer[i].at = sum / weight + offsets[i];
  }
}

/** The points of a line, from edge to edge of its boxes and level across each layer in between; and its label's centre. */
function lined(thread, xy) {
  const label = thread.find((node) => node.label);
  const points = [];
  const turned = thread[0].rank > thread.at(-1).rank;
  const [enter, leave] = turned ? ["end", "start"] : ["start", "end"];
  thread.forEach((node, i) => {
    if (node.thread && node.start === node.end) return; // an empty layer: the line runs through without a bend
    if (i) points.push(xy(edgeOf(node, enter), node.at));
    if (i < thread.length - 1) points.push(xy(edgeOf(node, leave), node.at));
  });
  const middle = points[Math.floor(points.length / 2)];
  return { points, ...(label ? xy(label.place, label.at) : middle) };
}

/** Where a line enters or leaves: at the node itself, which may be slimmer than its layer. */
function edgeOf(node, side) {
  if (node.thread) return node[side];
  return side === "start" ? node.place - node.along / 2 : node.place + node.along / 2;
}
