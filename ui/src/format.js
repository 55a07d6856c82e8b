// Numbers for people, in the words of the terminal view.

export const ABSENT = "–";
const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;
const YEAR = 31557600;
const END_OF_TIME_MS = 253370764800000; // the year 9999: the watermark of an ended input
const FIRST_TIME_MS = -62135596800000; // the year 1: before it, no row has set the watermark
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

const known = (number) => typeof number === "number" && Number.isFinite(number);

/** A whole number with thousands separators. */
export const count = (number) => (known(number) ? whole.format(number) : ABSENT);

/** A number with at most four characters before its unit: 12,345 and 123 k and 1.2 M. */
export function compact(number) {
  if (!known(number)) return ABSENT;
  const size = Math.abs(number);
  if (size < 10 && size > 0 && !Number.isInteger(number)) return number.toFixed(1);
  if (size < 99999.5) return whole.format(number);
  const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [value, unit] = units.find(([least]) => size >= least * 0.9995);
  const scaled = number / value;
  return `${Math.abs(scaled) < 9.95 ? scaled.toFixed(1) : scaled.toFixed(0)} ${unit}`;
}

/** Rows per second. */
export const rate = (number) => compact(number);

/** Bytes. */
export function size(number) {
  if (!known(number)) return ABSENT;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = number;
  let power = 0;
  while (value >= 999.5 && power < units.length - 1) {
    value /= 1000;
    power += 1;
  }
  return `${value.toFixed(power === 0 || value >= 9.95 ? 0 : 1)} ${units[power]}`;
}

/** What a source has not read: rows of a topic, or files; empty if not known. */
export function unread(input, unit = "") {
  if (known(input.filesUnread)) return input.filesUnread ? `${plural(input.filesUnread, "file")} (${size(input.bytesUnread)})` : "0 files";
  return known(input.lagRecords) ? compact(input.lagRecords) + unit : "";
}

/** Seconds in a suitable unit: 420 ms, 1.3 s, 2m 14s, 3h 02m, 4d 6h. */
export function duration(seconds) {
  if (!known(seconds)) return ABSENT;
  if (seconds < 0.9995) return `${Math.max(0, seconds * 1000).toFixed(0)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const all = Math.round(seconds);
  const two = (number) => String(number).padStart(2, "0");
  if (all < MINUTE) return `${all} s`;
  if (all < HOUR) return `${Math.floor(all / MINUTE)}m ${two(all % MINUTE)}s`;
  if (all < DAY) return `${Math.floor(all / HOUR)}h ${two(Math.floor((all % HOUR) / MINUTE))}m`;
  if (all < YEAR) return `${Math.floor(all / DAY)}d ${Math.floor((all % DAY) / HOUR)}h`;
  return `${(all / YEAR).toFixed(1)} y`;
}

/** Seconds that keep changing: whole ones, so that the last digit does not jump about. */
export const age = (seconds) => (known(seconds) && seconds < 9.95 ? `${Math.floor(Math.max(0, seconds))} s` : duration(seconds));

/** The time since an event. */
export const ago = (seconds) => (!known(seconds) ? ABSENT : seconds < 1 ? "just now" : `${age(seconds)} ago`);

/** Milliseconds, of which -1 is Flink's word for not known. */
export const ms = (number) => (known(number) && number >= 0 ? duration(number / 1000) : ABSENT);

/** A share as a percentage; anything above zero is at least 1 %. */
export const percent = (share) => (known(share) ? `${share > 0 ? Math.max(1, Math.round(share * 100)) : 0} %` : ABSENT);

/** A watermark, as a time in UTC. */
export function eventTime(watermarkMs) {
  if (!known(watermarkMs) || watermarkMs < FIRST_TIME_MS) return ABSENT;
  if (watermarkMs >= END_OF_TIME_MS) return "end of input";
  return new Date(watermarkMs).toISOString().slice(0, 19).replace("T", " ");
}

/** A watermark's lag; a dash if the records come from an archive, or if there is no watermark. */
export const watermarkLag = (lagMs, watermarkMs) =>
  known(lagMs) && lagMs < DAY * 1000 && eventTime(watermarkMs) !== ABSENT ? duration(lagMs / 1000) : ABSENT;

/** A time of day in the reader's time zone, with the date if it is not today's. */
export function clockTime(seconds, now) {
  if (!known(seconds)) return ABSENT;
  const at = new Date(seconds * 1000);
  const today = new Date(now * 1000).toDateString() === at.toDateString();
  return today ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
}

/** Date and time in the reader's time zone. */
export const dateTime = (seconds) => (known(seconds) ? moment.format(new Date(seconds * 1000)) : ABSENT);

/** `1 restart`, `2 restarts`. */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** The start of a text that fits into so many characters. */
export const clip = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/** Seconds of a duration as the job file writes it: 10s, 1m 30s, PT10S are read as far as they are known. */
export function seconds(written) {
  if (known(written)) return written;
  if (typeof written !== "string") return null;
  const units = { ms: 0.001, s: 1, m: MINUTE, min: MINUTE, h: HOUR, d: DAY };
  const parts = [...written.matchAll(/(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)/g)];
  return parts.length ? parts.reduce((sum, [, number, unit]) => sum + Number(number) * units[unit], 0) : null;
}
