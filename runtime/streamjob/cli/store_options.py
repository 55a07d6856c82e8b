"""The options that name a job's place in a store, and what a start takes over from there."""

from __future__ import annotations

from typing import Annotated

import typer

LocationOption = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="Location of the job's checkpoints: a path, file:///path or s3://bucket/prefix. Default: "
        "checkpointing.location of the job, or .streamjob/snapshots next to the file.",
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(metavar="NS", help="Namespace of the job in the store. Default: the file's, or default."),
]
NameOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the job in the store. Default: the file's.")
]
AllowNonRestoredStateOption = Annotated[
    bool,
    typer.Option(
        "--allow-non-restored-state",
        help="Drop state that the job has no operator for, or that does not fit its operator, which starts empty.",
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse state that can be changed to its new form only with a gap, such as an added aggregate that begins "
        "empty in open groups.",
    ),
]
RequireSnapshotOption = Annotated[
    bool, typer.Option("--require-snapshot", help="Fail with exit code 3 instead of starting without state.")
]
