"""All checks of an export, in the order in which they lean on each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hushmq.verify.check_accounts import check_accounts
from hushmq.verify.check_archives import ArchiveFile, check_archives, with_archives
from hushmq.verify.check_epochs import check_epochs
from hushmq.verify.check_ledger import check_entries, check_releases
from hushmq.verify.check_promises import check_policies, check_settings
from hushmq.verify.check_reconciled import check_reconciled
from hushmq.verify.claims import Claim, judged, not_checked
from hushmq.verify.export_file import Export, unknown
from hushmq.verify.signed_text import canonical, sealed_by

Progress = Callable[[float], None]


def check_export(
    export: Export,
    ops_keys: Sequence[bytes],
    calibrator_keys: Sequence[bytes],
    progress: Progress = lambda share: None,
    archive: Sequence[ArchiveFile] = (),
) -> Iterator[Claim]:
    """Every claim of an export and of its archive, as it is checked."""
    strange = unknown("export", export.tree)
    if strange:
        yield not_checked("export", "nothing unknown in it", strange[0])
    content = {name: value for name, value in export.tree.items() if name != "seal"}
    sealed = sealed_by(calibrator_keys, b"export\n" + canonical(content), export.tree.get("seal"))
    yield judged(
        "export",
        "sealed by the calibrator",
        [] if sealed else ["it is not what a trusted key of the calibrator sealed"],
        f"made {export.tree['at']}",
    )
    yield from check_archives(export, archive, calibrator_keys)
    export = with_archives(export, archive)
    yield from check_policies(export, ops_keys)
    strays = sorted({one.stream for one in export.settings} - export.streams.keys())
    if strays:
        yield not_checked("settings", "of a stream", f"the export has no stream {strays[0]}")
    for number, stream in enumerate(sorted(export.streams)):
        share = 1 / len(export.streams)
        yield from check_settings(export, stream, calibrator_keys)
        yield from check_entries(export, stream, calibrator_keys)
        yield from check_reconciled(export, stream, ops_keys)
        yield from check_epochs(export, stream)
        yield from check_releases(export, stream, lambda done: progress(share * (number + done)))  # noqa: B023
        yield from check_accounts(export, stream)
    progress(1.0)
