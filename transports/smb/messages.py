"""The SMB2 requests this backend sends, each built in one place.

A file id is the 16 bytes that a CREATE was answered with. `CHAINED` stands for "the handle that the CREATE before me in this
compound opened" ([MS-SMB2] 3.2.4.1.4).
"""

import struct
from typing import Any

from smbprotocol.change_notify import CompletionFilter, SMB2ChangeNotifyRequest
from smbprotocol.create_contexts import CreateContextName, SMB2CreateContextRequest
from smbprotocol.file_info import FileAttributes, FileInformationClass, InfoType
from smbprotocol.open import (
    CloseFlags,
    CreateDisposition,
    CreateOptions,
    FilePipePrinterAccessMask,
    ImpersonationLevel,
    ShareAccess,
    SMB2CloseRequest,
    SMB2CreateRequest,
    SMB2FlushRequest,
    SMB2QueryDirectoryRequest,
    SMB2QueryInfoRequest,
    SMB2ReadRequest,
    SMB2SetInfoRequest,
    SMB2WriteRequest,
)

Message = Any  # smbprotocol ships no types: a Structure with a COMMAND

CHAINED = b"\xff" * 16

# Access: what the handle is for. Metadata alone conflicts with nobody's share mode.
READ_DATA: int = FilePipePrinterAccessMask.FILE_READ_DATA
WRITE_DATA: int = FilePipePrinterAccessMask.FILE_WRITE_DATA
READ_ATTRIBUTES: int = FilePipePrinterAccessMask.FILE_READ_ATTRIBUTES
DELETE: int = FilePipePrinterAccessMask.DELETE

# Share: what others may hold open beside it.
SHARE_NONE = 0
SHARE_READ: int = ShareAccess.FILE_SHARE_READ
SHARE_ALL: int = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE

FILE: int = CreateOptions.FILE_NON_DIRECTORY_FILE
FOLDER: int = CreateOptions.FILE_DIRECTORY_FILE
ITSELF: int = CreateOptions.FILE_OPEN_REPARSE_POINT  # a link, and not what it leads to
VANISHING: int = CreateOptions.FILE_DELETE_ON_CLOSE

FULL_DIRECTORY_INFORMATION: int = FileInformationClass.FILE_FULL_DIRECTORY_INFORMATION
ATTRIBUTE_TAG_INFORMATION: int = FileInformationClass.FILE_ATTRIBUTE_TAG_INFORMATION
_DISPOSITION_INFORMATION: int = FileInformationClass.FILE_DISPOSITION_INFORMATION
RENAME_INFORMATION: int = FileInformationClass.FILE_RENAME_INFORMATION
LINK_INFORMATION: int = FileInformationClass.FILE_LINK_INFORMATION

# [MS-FSCC] 2.5; smbprotocol names no file system class that is needed here but one.
FS_ATTRIBUTE_INFORMATION = 5
FS_FULL_SIZE_INFORMATION = 7


def open_(name: str, access: int, share: int, options: int = 0, *, new: bool = False, volume: bool = False) -> Message:
    """CREATE: opens what is there, or with `new` makes what is not. `volume` asks for the id of the volume as well."""
    message = SMB2CreateRequest()
    message["impersonation_level"] = ImpersonationLevel.Impersonation
    message["desired_access"] = access
    message["file_attributes"] = FileAttributes.FILE_ATTRIBUTE_NORMAL if new and not options & FOLDER else 0
    message["share_access"] = share
    message["create_disposition"] = CreateDisposition.FILE_CREATE if new else CreateDisposition.FILE_OPEN
    message["create_options"] = options
    message["buffer_path"] = name.encode("utf-16-le") or b"\x00\x00"
    if volume:
        context = SMB2CreateContextRequest()
        context["buffer_name"] = CreateContextName.SMB2_CREATE_QUERY_ON_DISK_ID
        message["buffer_contexts"] = SMB2CreateContextRequest.pack_multiple([context])
    return message


def scratch(name: str) -> Message:
    """CREATE of an empty file that vanishes when its handle is closed.

    Access to write is asked for as well: without it a read-only share says "not found" of a new name.
    """
    return open_(name, WRITE_DATA | READ_ATTRIBUTES | DELETE, SHARE_NONE, FILE | VANISHING, new=True)


def close(file_id: bytes = CHAINED, *, attributes: bool = False) -> Message:
    """CLOSE; with `attributes` it is answered with the final size and times."""
    message = SMB2CloseRequest()
    message["file_id"] = file_id
    if attributes:
        message["flags"] = CloseFlags.SMB2_CLOSE_FLAG_POSTQUERY_ATTRIB
    return message


def write(file_id: bytes, offset: int, data: bytes) -> Message:
    message = SMB2WriteRequest()
    message["length"] = len(data)
    message["offset"] = offset
    message["file_id"] = file_id
    message["buffer"] = data
    return message


def flush(file_id: bytes) -> Message:
    message = SMB2FlushRequest()
    message["file_id"] = file_id
    return message


def read(file_id: bytes, offset: int, length: int) -> Message:
    """READ of exactly `length` bytes: where fewer are left the server says END_OF_FILE, and no answer is short."""
    message = SMB2ReadRequest()
    message["length"] = length
    message["minimum_count"] = length
    message["offset"] = offset
    message["file_id"] = file_id
    message["padding"] = b"\x50"  # where the data should stand in the answer: header and fixed part, as every client asks
    return message


def list_(file_id: bytes, pattern: str, room: int) -> Message:
    message = SMB2QueryDirectoryRequest()
    message["file_information_class"] = FULL_DIRECTORY_INFORMATION
    message["flags"] = 0
    message["file_id"] = file_id
    message["output_buffer_length"] = room
    message["buffer"] = pattern.encode("utf-16-le")
    return message


def query(info_type: int, info_class: int, room: int = 4096, file_id: bytes = CHAINED) -> Message:
    message = SMB2QueryInfoRequest()
    message["info_type"] = info_type
    message["file_info_class"] = info_class
    message["output_buffer_length"] = room
    message["file_id"] = file_id
    return message


def query_file(info_class: int) -> Message:
    return query(InfoType.SMB2_0_INFO_FILE, info_class)


def query_volume(info_class: int) -> Message:
    return query(InfoType.SMB2_0_INFO_FILESYSTEM, info_class)


def _set(info_class: int, data: bytes, file_id: bytes) -> Message:
    message = SMB2SetInfoRequest()
    message["info_type"] = InfoType.SMB2_0_INFO_FILE
    message["file_info_class"] = info_class
    message["file_id"] = file_id
    message["buffer"] = data
    return message


def _new_name(info_class: int, name: str, file_id: bytes, *, replace: bool) -> Message:
    # [MS-FSCC] 2.4.23 and 2.4.42, for SMB2: both have the same form.
    encoded = name.encode("utf-16-le")
    return _set(info_class, struct.pack("<B7xQI", replace, 0, len(encoded)) + encoded, file_id)


def rename(name: str, file_id: bytes = CHAINED, *, replace: bool) -> Message:
    return _new_name(RENAME_INFORMATION, name, file_id, replace=replace)


def link(name: str, file_id: bytes = CHAINED) -> Message:
    """A hard link, which never replaces."""
    return _new_name(LINK_INFORMATION, name, file_id, replace=False)


def remove(file_id: bytes = CHAINED) -> Message:
    """The name that the handle was opened by goes when the handle is closed."""
    return _set(_DISPOSITION_INFORMATION, b"\x01", file_id)


def watch(file_id: bytes) -> Message:
    """CHANGE_NOTIFY for names in one folder. With no room for details the answer says only that something changed."""
    message = SMB2ChangeNotifyRequest()
    message["output_buffer_length"] = 0
    message["file_id"] = file_id
    message["completion_filter"] = CompletionFilter.FILE_NOTIFY_CHANGE_FILE_NAME | CompletionFilter.FILE_NOTIFY_CHANGE_DIR_NAME
    return message
