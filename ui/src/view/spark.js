import { useState } from "preact/hooks";
import { clockTime } from "../format.js";
import { html } from "../html.js";

const WIDTH = 300;
const HEIGHT = 46;
export const SPAN = 900; // seconds

/**
 * The last 15 minutes of a figure.
 * @param {{points: {at: number, value: number | null}[], now: number, show: (value: number) => string, label: string, lines?: {at: number, tone: string}[]}} props
 */
export function Sparkline({ points, now, show, label, lines = [], most = null }) {
  const [hover, setHover] = useState(null);
  const start = now - SPAN;
  const seen = points.filter((each) => each.at >= start);
  const values = seen.map((each) => each.value).filter((value) => value != null);
  if (values.length < 2) return html`<p class="nospark">${values.length || !seen.length ? "The line appears after a few seconds." : ""}</p>`;
  const high = Math.max(most ?? 0, ...values) || 1;
  const x = (at) => Math.max(0, ((at - start) / SPAN) * WIDTH);
  const y = (value) => HEIGHT - 2 - (value / high) * (HEIGHT - 6);
  const pieces = pieced(seen);
  const strokes = pieces.map((piece) => `M${piece.map((each) => `${x(each.at).toFixed(1)},${y(each.value).toFixed(1)}`).join("L")}`);
  const areas = pieces.map((piece, i) => `${strokes[i]}L${x(piece.at(-1).at).toFixed(1)},${HEIGHT}L${x(piece[0].at).toFixed(1)},${HEIGHT}Z`);
  const move = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = start + ((event.clientX - box.left) / box.width) * SPAN;
    setHover(at);
  };
  const nearest = hover == null ? null : seen.reduce((best, each) => (Math.abs(each.at - hover) < Math.abs(best.at - hover) ? each : best));
  const at = nearest ?? null;
  return html`<figure class="spark">
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${label}, last 15 minutes: lowest ${show(Math.min(...values))}, highest ${show(Math.max(...values))}`}
      onMouseMove=${move} onMouseLeave=${() => setHover(null)}>
      ${lines.filter((each) => each.at < high).map((each) => html`<line class=${`limit ${each.tone}`} x1="0" x2=${WIDTH} y1=${y(each.at)} y2=${y(each.at)} />`)}
      ${areas.map((d) => html`<path class="area" d=${d} />`)}
      ${strokes.map((d) => html`<path class="stroke" d=${d} />`)}
      ${at && html`<line class="cursor" x1=${x(at.at)} x2=${x(at.at)} y1="0" y2=${HEIGHT} />`}
    </svg>
    <figcaption>${at
      ? html`<span>${clockTime(at.at, now)}</span><span>${at.value == null ? "not known" : show(at.value)}</span>`
      : html`<span>15 min</span><span>highest ${show(Math.max(...values))}</span>`}</figcaption>
  </figure>`;
}

/** The pieces of a line between gaps: unknown values, and times without points. */
function pieced(points) {
  const pieces = [];
  let piece = [];
  for (const each of points) {
    const gap = piece.length && each.at - piece.at(-1).at > 60;
    if ((gap || each.value == null) && piece.length) {
      pieces.push(piece);
      piece = [];
    }
    if (each.value != null) piece.push(each);
  }
  if (piece.length) pieces.push(piece);
  return pieces.filter((each) => each.length > 1);
}
