/**
 * Applies a JSON Merge Patch (RFC 7396) without changing its target.
 * @param {unknown} target the document so far
 * @param {unknown} patch the changes; null removes a field
 * @returns {any} the changed document; parts without a change are the same objects
 */
export function merge(target, patch) {
  if (!isObject(patch)) return patch;
  const merged = isObject(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (name === "__proto__") continue;
    if (value == null) delete merged[name];
    else merged[name] = merge(merged[name], value);
  }
  return merged;
}

function isObject(value) {
  return value != null && typeof value === "object" && !Array.isArray(value);
}
