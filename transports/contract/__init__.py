"""The conformance suite: what `transports.base` promises, held against a backend member by member.

For a backend of your own, write a test module of one fixture:

    class TestMine(TransportContract):
        @pytest.fixture
        def place(self, tmp_path: Path) -> Place:
            return Place(connect=partial(connect_mine, str(tmp_path)))

where `connect_mine(directory, below)` returns a new connection rooted at `below` ("" for the directory itself), and run
pytest. The directory is fresh and empty for every test. It needs pytest, and pytest-timeout where a server may hang.

Add `PlantedContract` where the directory can also be reached as a folder of this machine (`Place.folder`): it plants what
cannot be made through the contract, such as links, names that are not UTF-8, and files that shrink while they are read.

Nothing is skipped. Where a backend promises less than everything (`Capabilities`), a test holds it to what it promises and
to what is promised always. The tests whose names contain "race" start eight processes, or eight threads if `Place` says so.
"""

import pytest

_PARTS = ("connection", "files", "folders", "listing", "place", "planted", "races", "renames", "resume")
# Before they are imported, so that a failing assertion shows its values as in a test module.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from transports.contract.connection import ConnectionContract  # noqa: E402  (see above)
from transports.contract.files import FileContract  # noqa: E402
from transports.contract.folders import FolderContract  # noqa: E402
from transports.contract.listing import ListingContract  # noqa: E402
from transports.contract.place import Place  # noqa: E402
from transports.contract.planted import PlantedContract  # noqa: E402
from transports.contract.races import RaceContract  # noqa: E402
from transports.contract.renames import RenameContract  # noqa: E402
from transports.contract.resume import ResumeContract  # noqa: E402

__all__ = ["Place", "PlantedContract", "TransportContract"]


class TransportContract(
    ConnectionContract,
    FileContract,
    FolderContract,
    ListingContract,
    RenameContract,
    ResumeContract,
    RaceContract,
):
    """Everything that can be held through the contract itself."""
