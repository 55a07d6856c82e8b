"""Says why the state of a changed query is refused, and what makes it fit."""

from __future__ import annotations

from collections.abc import Set

from streamjob.ids import OperatorUid
from streamjob.job.model.spec import STATE
from streamjob.migration.state import KeptState, NotCarried, Wishes, columns_in_words
from streamjob.migration.tables import tables_in_words, tables_of


def reason(refusal: str, before: KeptState, wishes: Wishes) -> str:
    """Return a reason, and that the author's query was left out, if that is for state of another form."""
    if wishes.of in (None, before.fingerprint):
        return refusal
    return f"{refusal}; the query under `migrate` is for the form {wishes.of}, and this is {before.fingerprint}"


def ways_out(uids: Set[OperatorUid], before: KeptState, after: KeptState, *, only_strict: bool = False) -> str:
    """Return what makes the state fit: the job as it was, names of renamed columns, or a query.

    Args:
        only_strict: whether only `--strict` refuses it, since something is missing afterwards.
    """
    ways = "undo the change; if a column was renamed, give the operator `renames: {former: present}`"
    if only_strict:
        ways = f"start without --strict (`strictMigration` of a StreamJob), if that may be missing; {ways}"
    try:
        was, now = tables_of(before), tables_of(after)
    except NotCarried:
        return ways
    if [*now] == [STATE]:
        sql, queries = "…", f"with a query that selects {columns_in_words(now[STATE].columns)}"
    else:
        # In quotes: a variable may be called `on`.
        sql = f"{{{', '.join(f'{name!r}: …' for name in now)}}}"
        queries = f"with queries (none for a table that follows by itself) that select {tables_in_words(now)}"
    # In quotes: some forms consist of digits, and are no text in YAML without them.
    return (
        f"{ways}; or give the job `migrate: {{{min(uids)}: {{from: '{before.fingerprint}', sql: {sql}}}}}` {queries} "
        f"from {tables_in_words(was)}"
    )
