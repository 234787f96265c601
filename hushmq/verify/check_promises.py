"""Checks what was promised: signed policies, and settings whose loss keeps the policy they were issued under."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise

from hushmq.verify.claims import Claim, Verdict, judged, judged_loss, not_checked
from hushmq.verify.export_file import Export, SignedSetting, StreamTerms, fraction, unknown
from hushmq.verify.largest_loss import Found
from hushmq.verify.more_state_pricing import MoreStates
from hushmq.verify.outward import Interval
from hushmq.verify.pricings import adversary_of, contains, tilts_of_noise
from hushmq.verify.signed_text import signed_by
from hushmq.verify.tilt_sequence import Tilts


def check_policies(export: Export, ops_keys: Sequence[bytes]) -> Iterator[Claim]:
    """Ops signed every policy, for this cohort; versions rise, and one is in force."""
    wrong = []
    for policy in export.policies:
        name = f"policy {policy.version}"
        if not signed_by(ops_keys, "Policy", policy.envelope):
            wrong.append(f"{name} is not signed by a trusted key of ops")
        if policy.message["cohort"] != export.cohort:
            wrong.append(f"{name} is for another cohort")
    for old, new in pairwise(export.policies):
        if not old.version < new.version:
            wrong.append(f"policy {new.version} comes after policy {old.version}")
        if old.until is None or (new.until is not None and new.until < old.until):
            wrong.append(f"policy {old.version} was followed for longer than the one after it")
    if export.policies and export.policies[-1].until is not None:
        wrong.append("the newest policy is no longer followed")
    yield judged("policies", "signed by ops, versions rise", wrong, f"{len(export.policies)} policies")
    for policy in export.policies:
        strange = unknown("policy", policy.message)
        for name, stream in policy.message["streams"].items():
            strange += [f"{name}: {what}" for what in unknown("stream policy", stream)]
            if name not in export.streams:
                strange.append(f"{name}: the export has no such stream")
        if strange:
            yield not_checked(f"policy {policy.version}", "nothing unknown in it", "; ".join(strange[:3]))


def check_settings(export: Export, stream: str, calibrator_keys: Sequence[bytes]) -> Iterator[Claim]:
    """The calibrator signed every setting of a stream, and the noise of each keeps ε of the operator for its Θ."""
    found = [one for one in export.settings if one.stream == stream]
    wrong = []
    for setting in found:
        name, message = f"version {setting.version}", setting.message
        if not signed_by(calibrator_keys, "NoiseSetting", setting.envelope):
            wrong.append(f"{name} is not signed by a trusted key of the calibrator")
        if (message["cohort"], message["stream"]) != (export.cohort, stream):
            wrong.append(f"{name} is for another cohort or stream")
    versions = [one.version for one in found]
    if versions != sorted(set(versions)):
        wrong.append("versions do not rise")
    yield judged(f"{stream}: settings", "signed by the calibrator", wrong, f"{len(found)} settings")
    missing = sorted(set(range(1, max(versions, default=0) + 1)) - set(versions))
    if missing:
        yield not_checked(
            f"{stream}: settings",
            "all there",
            f"version {', '.join(map(str, missing[:3]))} is not in the export",
        )
    policies = {policy.version: policy.stream(stream) for policy in export.policies}
    for setting in found:
        yield _check_setting(setting, policies.get(setting.message["policy"]))


def _check_setting(setting: SignedSetting, policy: StreamTerms | None) -> Claim:
    message = setting.message
    about = f"{setting.stream}: setting {setting.version}"
    if setting.device is not None:
        about += f" for {setting.device}"
    claim = "keeps ε of the operator"
    strange = unknown("setting", message)
    if strange:
        return not_checked(about, claim, strange[0])
    if policy is None:
        return not_checked(
            about, claim, f"policy {message['policy']}, which it was issued under, is not in the export"
        )
    theta, noise = message["theta"], message["noise"]
    if not all(contains(theta, floor) for floor in policy.floors):
        return Claim(about, claim, Verdict.FAILS, "its Θ does not contain the policy's floor")
    one = tilts_of_noise(noise)
    # As much as the whole account tilts a tick, if every stream of it uses as much of its share.
    share = fraction(policy.share(setting.device))
    tilts = Tilts(*((towards + policy.device_tilt) / share for towards in one))
    budget, stated = policy.epsilon("operator"), None
    try:
        adversary = adversary_of(theta, policy.adversary, policy.stride)
    except NotImplementedError as what:
        return not_checked(about, claim, str(what))
    pricing = adversary.pricing
    if isinstance(pricing, MoreStates):
        certificate = noise["certificate"]
        if tilts.towards0.low > Decimal(certificate["tau"]):
            return Claim(about, claim, Verdict.FAILS, "its noise tilts more than its certificate is for")
        proved = pricing.proved_by(certificate)
        if proved is None:
            return Claim(about, claim, Verdict.FAILS, "its certificate proves nothing")
        # The certificate claims a loss for its own tilt, which is at least that of the noise.
        stated = certificate["tau"] + certificate["left"]["bound"] + certificate["right"]["bound"]
        stated += float(adversary.spread)
        loss = adversary.beside(Interval(tilts.towards0.low, proved))
    else:
        loss = adversary.loss_for_ever(tilts)
    return judged_loss(about, claim, Found(loss, None), budget=budget, stated=stated)
