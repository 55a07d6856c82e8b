// The boxes of a flame graph, from the tree that the driver sends.

/**
 * @typedef {object} Box a function on a stack: from when to when it goes, in ms
 * @property {string} name
 * @property {number} depth
 * @property {number} start
 * @property {number} millis
 * @property {number} shade the same for the same function
 * @property {number} key
 */

/** @returns {Box[]} each before those that it called */
export function boxes(process) {
  const starts = [0];
  return process.nodes.map(([frame, depth, millis], key) => {
    const start = starts[depth];
    // Its callees begin where it begins, and the next box of this depth where it ends.
    starts[depth] = start + millis;
    starts.length = depth + 1;
    starts.push(start);
    return { name: process.frames[frame], depth, start, millis, shade: frame, key };
  });
}

/** @returns {[string, number][]} the functions with the most ms of their own, callees not included */
export function hottest(process, most = 12) {
  const own = new Map();
  const path = [];
  const add = (name, millis) => own.set(name, (own.get(name) ?? 0) + millis);
  for (const [frame, depth, millis] of process.nodes) {
    const name = process.frames[frame];
    path.length = depth;
    if (depth > 0) add(path[depth - 1], -millis);
    add(name, millis);
    path.push(name);
  }
  return [...own].filter(([, millis]) => millis >= 0.5).sort((a, b) => b[1] - a[1]).slice(0, most);
}
