"""The device's local report and metrics."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from hushmq.agent.device_report import Report, StreamReport, metrics, table

STREAM = StreamReport(
    noise=3,
    refused=None,
    sampled=1234,
    counted=1200,
    buffered=30,
    dropped=4,
    watermark=99,
    source_trouble=None,
    silent_s=None,
    values_refused=5,
    clock_set=1,
    ticks_watched=1234,
    outside_theta=None,
    repeated_readings=None,
)
REPORT = Report(
    device="wearable-1",
    cohort="home",
    pid=7,
    connected=True,
    broker_error=None,
    policy=2,
    policy_refused=None,
    outbox_bytes=4096,
    outbox_set_aside=None,
    batches_sent=12,
    batches_acknowledged=11,
    ticks_not_stored=0,
    streams={"motion": STREAM, "sound": replace(STREAM, noise=None, source_trouble="gone", dropped=0)},
)


def test_metrics_are_what_prometheus_reads() -> None:
    """Prometheus's parser finds every number under its name, type and label, with help text, none twice."""
    found = {family.name: family for family in text_string_to_metric_families(metrics(REPORT))}
    assert all(family.documentation for family in found.values())
    assert all(family.type in {"gauge", "counter"} for family in found.values())
    values = {
        (sample.name, sample.labels.get("stream")): sample.value
        for family in found.values()
        for sample in family.samples
    }
    assert len(values) == sum(len(family.samples) for family in found.values()) == 6 + 2 * 6
    assert values["hushmq_agent_connected", None] == 1
    assert values["hushmq_agent_batches_sent_total", None] == 12
    assert values["hushmq_agent_stream_sampled_total", "motion"] == 1234
    assert values["hushmq_agent_stream_noise", "sound"] == 0


def test_metrics_do_not_depend_on_the_data() -> None:
    """Another machine may read them: what a source did, and how many values were refused, is not among them."""
    other = replace(STREAM, source_trouble="gone", silent_s=77, values_refused=999)
    assert metrics(replace(REPORT, streams={"motion": other, "sound": STREAM})) == metrics(
        replace(REPORT, streams={"motion": STREAM, "sound": STREAM})
    )


def test_a_silent_source_is_shown_on_the_device() -> None:
    said = table(replace(REPORT, streams={"motion": replace(STREAM, silent_s=4000)}), colour=True)
    assert "\x1b[31msilent for 4,000 s: its last value is published\x1b[0m" in said


def test_the_table_shows_what_is_wrong() -> None:
    """Nothing is red while all works; each failure is described in red."""
    assert "\x1b[31m" not in table(replace(REPORT, streams={"motion": STREAM}), colour=True)
    wrong = replace(
        REPORT,
        connected=False,
        broker_error="mqtt://h:1: connection refused",
        policy=None,
        policy_refused="stale-version",
        outbox_set_aside="/x/outbox.corrupt-1.db",
        ticks_not_stored=17,
        streams={
            **REPORT.streams,
            "warmth": replace(
                STREAM,
                repeated_readings="readings arrive every 60 s",
                outside_theta="states do not behave like Θ",
            ),
        },
    )
    said = table(wrong, colour=True)
    for words in (
        "not connected: mqtt://h:1: connection refused",
        "none yet: nothing is sampled",
        ", another one refused: stale-version",
        "a corrupt outbox was set aside: /x/outbox.corrupt-1.db",
        "17 ticks not stored: the disk was full",
        "none yet: nothing is published",
        "gone",
        "readings arrive every 60 s",
        "states do not behave like Θ",
    ):
        assert f"\x1b[31m{words}\x1b[0m" in said
    assert "\x1b" not in table(wrong, colour=False)
    assert "1,234 sampled = 1,200 counted + 30 buffered + 4 dropped" in said


def test_a_report_survives_its_way_over_the_socket() -> None:
    assert Report.from_dict(REPORT.as_dict()) == REPORT
