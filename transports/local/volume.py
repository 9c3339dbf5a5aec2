"""Which file system a folder is on, and what its kind is known for."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

# A rename or an exclusive create on these is only as good as the server or program behind the mount. The SMB client of
# the kernel opens the source of a rename sharing its deletion: two hosts can both win.
_BEHIND_A_MOUNT = ("cifs", "smb3", "smbfs", "fuse", "9p", "virtiofs", "vboxsf")
# Other hosts' changes raise no event here.
_WITHOUT_EVENTS = ("nfs", "ceph", "afs", "lustre", "gpfs", *_BEHIND_A_MOUNT)
_IN_MEMORY = ("tmpfs", "ramfs")
_TIME_STEP: Mapping[str, float] = {"vfat": 2.0, "msdos": 2.0, "exfat": 0.01, "hfs": 1.0, "ext3": 1.0, "ext2": 1.0}
_KERNEL_TICK = 0.01  # seconds; files are stamped by the kernel's coarse clock


@dataclass(frozen=True, slots=True)
class Volume:
    """One mounted file system. Two folders of one volume can be renamed between."""

    device: int
    mount: int | None  # None where /proc is not mounted
    kind: str  # "ext4", "nfs4", "fuse.sshfs", ...; "unknown" without /proc

    @property
    def behind_a_mount(self) -> bool:
        return self._is(_BEHIND_A_MOUNT)

    @property
    def in_memory(self) -> bool:
        return self._is(_IN_MEMORY)

    @property
    def tells_changes(self) -> bool:
        return not self._is(_WITHOUT_EVENTS)

    @property
    def time_step(self) -> float:
        return _TIME_STEP.get(self.kind, _KERNEL_TICK)

    def _is(self, kinds: tuple[str, ...]) -> bool:
        return self.kind.rstrip("0123456789") in kinds or self.kind in kinds or self.kind.partition(".")[0] in kinds


def volume_of(folder: int) -> Volume:
    """The volume of an open folder. Raises OSError."""
    mount = mount_of(folder)
    return Volume(os.fstat(folder).st_dev, mount, _kind_of(mount))


def mount_of(folder: int) -> int | None:
    """The number of the mount an open folder was reached through: a bind mount has the device number of its origin."""
    try:
        with open(f"/proc/self/fdinfo/{folder}", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("mnt_id:"):
                    return int(line.split()[1])
    except OSError:
        # No /proc, as in some chroots: the device number has to do.
        return None
    return None


def _kind_of(mount: int | None) -> str:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                before, _, after = line.partition(" - ")
                if mount is not None and int(before.split()[0]) == mount:
                    return after.split()[0]
    except OSError:
        return "unknown"
    return "unknown"
