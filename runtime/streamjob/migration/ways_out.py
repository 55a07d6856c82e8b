"""Says why the state of a changed query is refused, and what makes it fit."""

from __future__ import annotations

from collections.abc import Set

from streamjob.ids import OperatorUid
from streamjob.migration.state import KeptState, NotCarried, Wishes, columns_in_words
from streamjob.migration.tables import STATE, table_of


def reason(refusal: str, before: KeptState, wishes: Wishes) -> str:
    """Return a reason, and that the author's query was left out, if that is for state of another form."""
    if wishes.sql is None or wishes.of in (None, before.fingerprint):
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
        was, now = columns_in_words(table_of(before)), columns_in_words(table_of(after))
    except NotCarried:
        return ways
    # In quotes: some forms consist of digits, and are no text in YAML without them.
    return (
        f"{ways}; or give the job `migrate: {{{min(uids)}: {{from: '{before.fingerprint}', sql: …}}}}` with a query "
        f"that selects {now} from {STATE} {was}"
    )
