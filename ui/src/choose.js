// Which jobs the page of all jobs shows, and in which order: pure functions.

const URGENCY = ["critical", "attention", "underway", "ok", "still"];

/** The jobs that a filter selects, the most urgent first. */
export function chosen(rows, filter, tone) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return rows
    .filter((row) => !tone || row.tone === tone)
    .filter((row) => {
      const text = `${row.namespace}/${row.name} ${row.lifecycle} ${row.sentence} ${(row.troubles ?? []).join(" ")}`.toLowerCase();
      return words.every((word) => text.includes(word));
    })
    .sort((a, b) => URGENCY.indexOf(a.tone) - URGENCY.indexOf(b.tone) || `${a.namespace}/${a.name}`.localeCompare(`${b.namespace}/${b.name}`));
}

/** How many jobs are of each tone, the most urgent first. */
export const tally = (rows) => URGENCY.map((tone) => [tone, rows.filter((row) => row.tone === tone).length]).filter(([, number]) => number > 0);
