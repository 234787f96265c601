"""Makes the report of a calibrator that works, from its cohort and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hushmq.broker.contract.messages import LedgerState
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.health_report import HealthReport
from hushmq.calibrator.ingest.inbox import Inbox
from hushmq.calibrator.settings.stored_settings import StoredSetting


def make_report(
    cohort: Cohort,
    inbox: Inbox,
    *,
    connected: bool,
    unsent: int,
    settings: Mapping[str, int],
    device_settings: Mapping[str, Mapping[str, StoredSetting]],
    ledgers: Mapping[str, LedgerState],
) -> HealthReport:
    """The report as of now."""
    statuses = cohort.statuses

    def version_for(stream: str, device: str) -> int:
        """The version the device should follow: the newer of the cohort's and of its device-specific setting."""
        specific = device_settings.get(stream, {}).get(device)
        return max(settings[stream], specific.message.version if specific else 0)

    refusing = Counter(
        str(refusal.reason)
        for status in statuses.values()
        for refusal in [status.refused, *(one.refused for one in status.streams.values())]
        if refusal is not None
    )
    stopped = {name: state.stopped for name, state in ledgers.items() if state.stopped}
    return HealthReport(
        connected=connected,
        policy=cohort.policy.version if cohort.policy else None,
        inbox=len(inbox),
        dropped=inbox.dropped,
        ticks_counted=cohort.counted,
        released=cohort.released,
        refused=cohort.refused,
        unsent=unsent,
        devices=len(statuses),
        online=sum(status.online is True for status in statuses.values()),
        quarantined={device: str(reason) for device, reason in cohort.quarantined().items()},
        rejected={str(reason): count for reason, count in cohort.rejected.items()},
        refusing=refusing,
        settings=dict(settings),
        behind={
            stream: sum(
                stream in one.streams and one.streams[stream].noise != version_for(stream, device)
                for device, one in statuses.items()
                if one.online is not False
            )
            for stream in settings
        },
        filled=dict(cohort.filled),
        left_out=cohort.left_out(),
        own={stream: len(devices) for stream, devices in device_settings.items()},
        ledgers=dict(ledgers),
        stopped=stopped | cohort.failed | cohort.stopped,
    )
